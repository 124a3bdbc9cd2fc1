"""Rows to Parquet files and back: the only module of the housekeeper that loads Arrow."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as arrow
from pyarrow import parquet

_TYPES = {
    "partition": arrow.int32(),
    "offset": arrow.int64(),
    "timestamp": arrow.timestamp("us", tz="UTC"),
    "sequence_number": arrow.int64(),
    "headers": arrow.list_(
        arrow.struct([arrow.field("key", arrow.string()), arrow.field("value", arrow.binary())])
    ),
}
_REPEATED = ["topic", "tenant_id"]


def row_schema(names: Iterable[str]) -> Any:
    """The columns of these names with their types."""
    return arrow.schema([arrow.field(name, _TYPES.get(name, arrow.string())) for name in names])


def write_rows(path: str, columns: dict[str, list[Any]]) -> int:
    """Write columns with the types that Spark's readers expect; returns the number of rows."""
    schema = row_schema(columns)
    arrays = [arrow.array(columns[field.name], field.type) for field in schema]
    return _write(path, arrow.table(arrays, schema=schema))


def join_files(path: str, parts: list[str]) -> int:
    """Concatenate the rows of several files into one; returns the number of rows.

    Files of earlier releases lack a column: its rows are null.
    """
    tables = [parquet.read_table(part) for part in parts]
    return _write(path, arrow.concat_tables(tables, promote_options="default"))


def _write(path: str, table: Any) -> int:
    parquet.write_table(table, path, compression="zstd", use_dictionary=_REPEATED)
    return int(table.num_rows)

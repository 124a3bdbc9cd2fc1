"""Rows of read models as Arrow tables: how they are written, and which of them count."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from driftq.model import Aggregate
from driftq.sinks.dead_letters import storable_dead_letter
from driftq.sinks.port import Change, ProjectionDeadLetter, RefusedChange

CHANGES = pa.schema(
    [
        pa.field("aggregate_type", pa.string(), nullable=False),
        pa.field("aggregate_id", pa.string(), nullable=False),
        pa.field("sequence_number", pa.int64(), nullable=False),
        pa.field("event_id", pa.string(), nullable=False),
        pa.field("state", pa.string()),
    ]
)
ANY_CHANGES = pa.schema([field.with_nullable(True) for field in CHANGES])
NO_KEY = "has no type, id, sequence or event id"
WAITING = pa.schema(
    [
        *list(CHANGES)[:4],
        pa.field("value", pa.string(), nullable=False),
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int64(), nullable=False),
        pa.field("message_offset", pa.int64(), nullable=False),
    ]
)
DEAD_LETTERS = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int64(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("event_id", pa.string()),
        pa.field("stage", pa.string(), nullable=False),
        pa.field("error", pa.string(), nullable=False),
        pa.field("value", pa.string()),
        # Files of earlier versions lack these.
        pa.field("identity", pa.string()),
        pa.field("attempts", pa.int64()),
        pa.field("key", pa.string()),
    ]
)


def as_table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def tuples(table: pa.Table) -> Iterable[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def newest(table: pa.Table) -> pa.Table:
    """The row with the highest sequence of each aggregate, by type and id; of equal ones the first."""
    keys = [("aggregate_type", "ascending"), ("aggregate_id", "ascending"), ("sequence_number", "descending")]
    ordered = table.take(pc.sort_indices(table, sort_keys=keys)).combine_chunks()
    if ordered.num_rows < 2:
        return ordered
    differs = pc.or_(*(_changes(ordered[name]) for name in ("aggregate_type", "aggregate_id")))
    first = pa.concat_arrays([pa.array([True]), differs.combine_chunks()])
    return ordered.filter(first)


def split_keyed(changes: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that a read model can hold, and those without a key or a sequence: a fold may make such."""
    is_keyed = pa.array([True] * changes.num_rows, pa.bool_())
    for field in CHANGES:
        if not field.nullable:
            is_keyed = pc.and_(is_keyed, pc.is_valid(changes[field.name]))
    return changes.filter(is_keyed).cast(CHANGES), changes.filter(pc.invert(is_keyed)).cast(ANY_CHANGES)


def without_key(rows: pa.Table) -> list[RefusedChange]:
    """Rows without a key or a sequence, for people and lookups: without nulls."""
    return [
        RefusedChange(Change(row[0] or "", row[1] or "", row[2] or 0, row[3] or "", row[4]), NO_KEY)
        for row in tuples(rows)
    ]


def _changes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """For each value but the first: whether it differs from the one before."""
    return pc.not_equal(column.slice(1), column.slice(0, len(column) - 1))


def read_aggregates(
    folder: Path, names: Iterable[str], schema: pa.Schema, aggregates: Iterable[Aggregate]
) -> pa.Table:
    """The rows of these aggregates, and perhaps of others with the same id and another type."""
    ids = pa.array(sorted({aggregate.id for aggregate in aggregates}), pa.string())
    return read_table(folder, names, schema, where=pc.field("aggregate_id").isin(ids))


def dead_letter_table(dead_letters: Sequence[ProjectionDeadLetter]) -> pa.Table:
    """A lone surrogate cannot be stored in a file either."""
    return as_table([storable_dead_letter(dead) for dead in dead_letters], DEAD_LETTERS)


def stored_dead_letters(table: pa.Table) -> list[ProjectionDeadLetter]:
    """The dead letters in a table; those of earlier versions lack what was added since."""
    return [
        ProjectionDeadLetter._make([*place, identity or "", attempts or 1, key or ""])
        for *place, identity, attempts, key in tuples(table)
    ]


def merge_files(folder: Path, names: Iterable[str]) -> tuple[str, int]:
    """A file with the newest row of each aggregate in these, and how many rows it has."""
    table = newest(read_table(folder, names, CHANGES))
    return write_table(folder, "rows", table), table.num_rows


def write_table(folder: Path, kind: str, table: pa.Table) -> str:
    """A file with a unique name, on disk before a manifest names it."""
    name = f"{kind}-{uuid.uuid4().hex}.parquet"
    with (folder / name).open("xb") as file:
        pq.write_table(table, file, compression="zstd")
        file.flush()
        os.fsync(file.fileno())
    return name


def read_table(
    folder: Path, names: Iterable[str], schema: pa.Schema, *, where: pc.Expression | None = None
) -> pa.Table:
    tables = [pq.read_table(folder / name, schema=schema, partitioning=None, filters=where) for name in names]
    return pa.concat_tables([schema.empty_table(), *tables])

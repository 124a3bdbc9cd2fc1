"""Stored messages as Arrow batches: the columns of a topic's table, from NDJSON or from its files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec
import pyarrow as arrow

from driftq.errors import ServerUnreachable
from driftq.model import Envelope
from driftq.pipeline.server import Server
from driftq.tables.parquet import row_schema
from driftq.tables.rows import COLUMNS, message_columns
from driftq.transport.paths import topic_path

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SCHEMA = row_schema(COLUMNS)
_BLOCK_BYTES = 4 << 20
_TRIES_MAX = 5


class _Line(msgspec.Struct):
    """One line of `/records`."""

    partition: int
    offset: int
    timestamp: str
    key: str
    value: str
    envelope: Envelope | None = None


_decode_lines = msgspec.json.Decoder(_Line).decode_lines


def spark_schema() -> StructType:
    """The same columns for Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(SCHEMA)


def fetch_rows(
    server: Server, topic: str, partition: int, *, start: int, end: int
) -> Iterator[arrow.RecordBatch]:
    """Stored messages from `start` up to, without, `end`; a broken response is resumed."""
    broken = 0
    while start < end:
        asked = {"partition": partition, "from": start, "to": end}
        try:
            for block in server.lines(topic_path(topic, "/records"), asked, block_bytes=_BLOCK_BYTES):
                lines = _decode_lines(block)
                start, broken = lines[-1].offset + 1, 0
                yield to_batch(topic, lines)
        except ServerUnreachable:
            broken += 1
            if broken == _TRIES_MAX:
                raise
        else:
            return


def to_batch(topic: str, lines: list[_Line]) -> arrow.RecordBatch:
    times = arrow.array([line.timestamp for line in lines])
    made = message_columns(lines) | {
        "topic": arrow.repeat(topic, len(lines)),
        "partition": arrow.repeat(arrow.scalar(lines[0].partition, arrow.int32()), len(lines)),
        "offset": [line.offset for line in lines],
        "timestamp": times.cast(SCHEMA.field("timestamp").type),
    }
    arrays = [
        column if isinstance(column, arrow.Array) else arrow.array(column, field.type)
        for field in SCHEMA
        for column in [made[field.name]]
    ]
    return arrow.RecordBatch.from_arrays(arrays, schema=SCHEMA)

"""One task's part: the rows of a range as Arrow batches, from files of the topic's table or over HTTP.

Both give the columns of the table: a row is the same wherever it is read from.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as arrow
from pyarrow import parquet

from driftq.errors import MessagesExpired, ServerUnreachable
from driftq.model import Envelope
from driftq.pipeline.source.options import TopicSourceOptions
from driftq.pipeline.source.ranges import TopicRange
from driftq.pipeline.source.topics import Topics
from driftq.storage.address import read_instance
from driftq.tables.parquet import row_schema
from driftq.tables.rows import COLUMNS, HEADERS, header_column, message_columns
from driftq.transport.paths import topic_path
from driftq.transport.server import Server

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SCHEMA = row_schema(COLUMNS)
WITH_HEADERS = row_schema((*COLUMNS, HEADERS))
BATCH_ROWS = 10_000
"""Of Arrow batches: small ones stay in the processor's caches on their way to Spark."""
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
    headers: dict[str, str] | None = None


_decode_lines = msgspec.json.Decoder(_Line).decode_lines


def spark_schema(*, headers: bool = False) -> StructType:
    """The same columns for Spark; with `headers` one more, of the type that Spark's Kafka source has."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(WITH_HEADERS if headers else SCHEMA)


def read_range(options: TopicSourceOptions, wanted: Any) -> Iterator[arrow.RecordBatch]:
    """Every wanted row of the range; raises MessagesExpired when some were removed since it was planned."""
    if not isinstance(wanted, TopicRange):
        return iter(())  # Spark asks for one empty partition where there is nothing to read.
    rows = _every_row(options, wanted)
    if options.newest_by is not None:
        from driftq.pipeline.source.newest import newest_only

        rows = newest_only(rows, by=options.newest_by)
    return rows


def _every_row(options: TopicSourceOptions, wanted: TopicRange) -> Iterator[arrow.RecordBatch]:
    schema = WITH_HEADERS if options.include_headers else SCHEMA
    at = wanted.start
    for path, end in wanted.files if read_instance(options.data) == wanted.instance else ():
        try:
            file = parquet.ParquetFile(path)
        except FileNotFoundError:
            break  # Its rows are in a larger file by now; the server has them.
        with file:
            yield from clipped(file, start=at, end=wanted.end, schema=schema)
        at = end
    if not wanted.files or at < wanted.files[-1].end:
        yield from _fetch(options, wanted, start=at, schema=schema)


def clipped(
    file: parquet.ParquetFile, *, start: int, end: int, schema: arrow.Schema = SCHEMA
) -> Iterator[arrow.RecordBatch]:
    """The rows of a table's file from one offset up to, without, another.

    A file of an earlier release has no column `headers`, and its messages have none.
    """
    names = [name for name in schema.names if name in file.schema_arrow.names]
    for batch in file.iter_batches(batch_size=BATCH_ROWS, columns=names):
        offsets = batch.column("offset").to_numpy()
        first, last = offsets.searchsorted(start), offsets.searchsorted(end)
        if first == 0 == last:
            return  # All of it is after the end, and so is the rest.
        if first < last:
            rows = batch.slice(first, last - first)
            found = [
                rows.column(field.name) if field.name in names else arrow.nulls(rows.num_rows, field.type)
                for field in schema
            ]
            yield arrow.RecordBatch.from_arrays(found, schema=schema)


def _fetch(
    options: TopicSourceOptions, wanted: TopicRange, *, start: int, schema: arrow.Schema
) -> Iterator[arrow.RecordBatch]:
    server = Server(options.url, credentials=options.credentials)
    expected = _expected(options, wanted, start=start) if wanted.messages is None else wanted.messages
    seen = 0
    try:
        for batch in fetch_rows(
            server, wanted.topic, wanted.partition, start=start, end=wanted.end, schema=schema
        ):
            seen += batch.num_rows
            yield batch
    finally:
        server.close()
    if seen < expected and options.fail_on_data_loss:
        raise MessagesExpired(
            f"partition {wanted.partition} of topic {wanted.topic!r}", wanted=start, oldest=wanted.end
        )


def _expected(options: TopicSourceOptions, wanted: TopicRange, *, start: int) -> int:
    """How many messages of the planned files the server still has; raises when some are gone."""
    topics = Topics(options)
    try:
        asked = {"partition": wanted.partition, "from": start, "to": wanted.end}
        found = topics.spans(wanted.topic, [asked])
        topics.checked(wanted.topic, found.spans[0], next_offset=found.next_offset)
        return found.spans[0].messages
    finally:
        topics.close()


def fetch_rows(
    server: Server, topic: str, partition: int, *, start: int, end: int, schema: arrow.Schema = SCHEMA
) -> Iterator[arrow.RecordBatch]:
    """Stored messages from `start` up to, without, `end`; a broken response is resumed."""
    broken = 0
    while start < end:
        asked = {"partition": partition, "from": start, "to": end}
        try:
            for block in server.lines(topic_path(topic, "/records"), asked, block_bytes=_BLOCK_BYTES):
                lines = _decode_lines(block)
                start, broken = lines[-1].offset + 1, 0
                yield to_batch(topic, lines, schema)
        except ServerUnreachable:
            broken += 1
            if broken == _TRIES_MAX:
                raise
        else:
            return


def to_batch(topic: str, lines: list[_Line], schema: arrow.Schema = SCHEMA) -> arrow.RecordBatch:
    times = arrow.array([line.timestamp for line in lines])
    made = message_columns(lines) | {
        "topic": arrow.repeat(topic, len(lines)),
        "partition": arrow.repeat(arrow.scalar(lines[0].partition, arrow.int32()), len(lines)),
        "offset": [line.offset for line in lines],
        "timestamp": times.cast(SCHEMA.field("timestamp").type),
    }
    if HEADERS in schema.names:
        made[HEADERS] = header_column(lines)
    arrays = [
        column if isinstance(column, arrow.Array) else arrow.array(column, field.type)
        for field in schema
        for column in [made[field.name]]
    ]
    return arrow.RecordBatch.from_arrays(arrays, schema=schema)

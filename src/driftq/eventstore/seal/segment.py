"""A segment: a closed range of the log as one plain Parquet file.

The same events give the same bytes under one version of pyarrow, so a sealer that starts again after a crash
writes what the one before wrote. Columns and their order are those of `StoredEvent`.
`payload`, `metadata` and `schema_version` are JSON texts; `occurred_at` is in microseconds UTC.
"""

from collections.abc import Sequence

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from driftq.errors import SegmentLost
from driftq.eventstore.stored import COLUMNS, StoredEvent, stored_events

__all__ = [
    "FORMAT",
    "SCHEMA",
    "StoredEvent",
    "decode_segment",
    "encode_segment",
    "join_segments",
    "read_segment",
]

FORMAT = "1"
_FORMAT_KEY = "driftq.segment"

_TYPES = {int: pa.int64(), str: pa.string()}
SCHEMA = pa.schema(
    [
        pa.field(
            name,
            pa.timestamp("us", tz="UTC") if name == "occurred_at" else _TYPES[field.type],
            nullable=False,
        )
        for name, field in zip(COLUMNS, msgspec.structs.fields(StoredEvent), strict=True)
    ]
)


def encode_segment(events: Sequence[StoredEvent]) -> bytes:
    """The Parquet file of these events, which must be in order and without a gap."""
    first = events[0].position
    if [event.position for event in events] != list(range(first, first + len(events))):
        raise ValueError(f"positions from {first} are not consecutive")
    columns = zip(*map(msgspec.structs.astuple, events), strict=True)
    table = pa.Table.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    return _written(table)


def join_segments(tables: Sequence[pa.Table]) -> bytes:
    """The Parquet file of consecutive segments; the same ones give the same bytes."""
    table = pa.concat_tables(tables)
    positions = table.column("position").to_numpy()
    if (
        len(positions) == 0
        or (positions != range(int(positions[0]), int(positions[0]) + len(positions))).any()
    ):
        raise ValueError("the segments are not consecutive")
    return _written(table)


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        SCHEMA,
        compression="zstd",
        version="2.6",
        data_page_version="1.0",
        coerce_timestamps="us",
        store_schema=False,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({_FORMAT_KEY: FORMAT})
    return bytes(sink.getvalue())


def decode_segment(content: bytes, *, name: str) -> list[StoredEvent]:
    """The events of a segment; raises SegmentLost when it is damaged or of another format."""
    return list(stored_events(read_segment(content, name=name)))


def read_segment(content: bytes, *, name: str) -> pa.Table:
    """The columns of a segment; raises SegmentLost when it is damaged or of another format."""
    try:
        table = pq.ParquetFile(pa.BufferReader(content)).read()
        written = (table.schema.metadata or {}).get(_FORMAT_KEY.encode(), b"").decode()
        if written != FORMAT:
            raise SegmentLost(name, cause=f"its format is {written or 'unknown'}, not {FORMAT}")
        return table.select(SCHEMA.names)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise SegmentLost(name, cause=str(error)) from error

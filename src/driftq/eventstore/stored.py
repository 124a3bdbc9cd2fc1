"""The stored form of an event, the same in SQL, in segments and on the way to Spark; how segments are named.

Its JSON texts are canonical: names sorted by code point, no spaces, UTF-8, integers in full, floats in the
shortest form that reads back to the same number. NaN and infinities are not JSON; they are refused, not
turned into null.

Each event is stored with the hash of its content. Two uses of one event_id are compared by it, and every
reader of a disk verifies it here. The hash covers aggregate, type, kind, operation and payload, and no other
field.

A segment is named after the positions in it. No aggregate id becomes part of an object's name, so no two can
collide there.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from json import encoder
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from driftq.errors import EventDamaged, InvalidArgument
from driftq.model import Aggregate

if TYPE_CHECKING:
    import pyarrow as pa

quoted = encoder.encode_basestring
"""A text as JSON."""
SEGMENT_FOLDER = "segments"
_SEGMENT = re.compile(rf"{SEGMENT_FOLDER}/(\d{{20}})-(\d{{20}})\.parquet")


def _encoding() -> Callable[[Any], str]:
    """The canonical text of a value, without the checks that `canonical_json` adds.

    JSONEncoder makes its inner encoder for each value, which costs as much as the encoding of a small value;
    where Python has that encoder in C it is made once. There is no check for a value that contains itself: it
    is refused as nested too deeply.
    """
    plain = json.JSONEncoder(
        ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), check_circular=False
    )
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return plain.encode
    pieces = make(None, plain.default, quoted, None, ":", ",", True, False, False)
    return lambda value: "".join(pieces(value, 0))


_encoded = _encoding()


def canonical_json(value: Any, *, field: str) -> str:
    """The one text for a JSON value; raises InvalidArgument naming the field when it has none."""
    if type(value) is int and abs(value) < 2**53:
        return str(value)
    try:
        text = _encoded(value)
        if not text.isascii():
            text.encode("utf-8")
    except UnicodeEncodeError:
        raise InvalidArgument(field, "contains a lone surrogate") from None
    except (TypeError, ValueError) as error:
        raise InvalidArgument(field, f"is not JSON: {error}") from None
    except RecursionError:
        raise InvalidArgument(field, "is nested too deeply") from None
    return text


def content_hash(
    aggregate: Aggregate, *, event_type: str, kind: str, operation: str, payload_json: str
) -> str:
    """SHA-256, in hex, of the canonical JSON array of the fields that identify an event's content."""
    whose = f"{quoted(aggregate.type)},{quoted(aggregate.id)}"
    array = f"[{whose},{_what(event_type, kind, operation)},{payload_json}]"
    return hashlib.sha256(array.encode()).hexdigest()


@lru_cache(maxsize=256)
def _what(event_type: str, kind: str, operation: str) -> str:
    """The part of the array that many events share."""
    return f"{quoted(event_type)},{quoted(kind)},{quoted(operation)}"


class StoredEvent(msgspec.Struct, frozen=True):
    """An event as it is stored, in SQL and in segments. Its JSON texts stay encoded.

    The fields and their order are the disk format of segments: add at the end, never change.
    """

    position: int
    event_id: str
    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    event_type: str
    kind: str
    operation: str
    occurred_at_us: int
    payload: str
    metadata: str
    schema_version: str
    content_hash: str


COLUMNS = tuple("occurred_at" if name == "occurred_at_us" else name for name in StoredEvent.__struct_fields__)
"""Of an event as a row of Arrow or Parquet, in the order of its fields."""


def stored_events(rows: "pa.Table | pa.RecordBatch") -> Iterator[StoredEvent]:
    """The events of these rows, in their order."""
    columns = [column_values(rows.column(name)) for name in COLUMNS]
    return (StoredEvent(*row) for row in zip(*columns, strict=True))


def column_values(column: "pa.ChunkedArray | pa.Array") -> list[Any]:
    """A column as plain values; an instant as its microseconds."""
    import pyarrow as pa  # A server without the extra for segments has none.

    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return list(column.to_pylist())


class _Kind(msgspec.Struct):
    kind: str


_kinds = msgspec.json.Decoder(_Kind)


def stored_event(row: Any) -> StoredEvent:
    """From a row of the log that has its texts; the kind stands in the metadata. Raises EventDamaged."""
    try:
        kind = _kinds.decode(row.metadata).kind
    except ValueError as error:
        raise damaged(row, f"its metadata cannot be read ({error})") from None
    return verified(StoredEvent(kind=kind, **row._mapping))


def verified(event: StoredEvent) -> StoredEvent:
    """The same event, if it has the content that it was stored with; else EventDamaged."""
    verify_content(event, kind=event.kind, payload=event.payload)
    return event


def verify_content(row: Any, *, kind: str, payload: str) -> None:
    """Raises EventDamaged when a row with these texts differs from what was appended."""
    found = content_hash(
        Aggregate(row.aggregate_type, row.aggregate_id),
        event_type=row.event_type,
        kind=kind,
        operation=row.operation,
        payload_json=payload,
    )
    if found != row.content_hash:
        raise damaged(row, "its content does not match the stored hash")


def damaged(row: Any, problem: str) -> EventDamaged:
    return EventDamaged(
        row.event_id,
        aggregate_type=row.aggregate_type,
        aggregate_id=row.aggregate_id,
        sequence_number=row.sequence_number,
        position=row.position,
        problem=problem,
    )


class SegmentRange(NamedTuple):
    """The log positions in one segment, both ends included."""

    first: int
    last: int

    @property
    def name(self) -> str:
        """Sorted by name is sorted by position."""
        return f"{SEGMENT_FOLDER}/{self.first:020d}-{self.last:020d}.parquet"


def largest(segments: Iterable[SegmentRange]) -> list[SegmentRange]:
    """Those that are not within another one, in order; segments are joined whole, so none overlap partly."""
    kept: list[SegmentRange] = []
    for one in sorted(segments, key=lambda each: (each.first, -each.last)):
        if not kept or one.last > kept[-1].last:
            kept.append(one)
    return kept


def parse_segment_name(name: str) -> SegmentRange | None:
    """The range of a segment's name; None for any other name."""
    found = _SEGMENT.fullmatch(name)
    return SegmentRange(int(found[1]), int(found[2])) if found else None

"""The stored form of an event, the same in SQL, in segments and on the way to Spark.

Each event is stored with the hash of its content, and every read from a disk checks it here. The hash covers
aggregate, type, kind, operation and payload, and no other field.
"""

from typing import Any

import msgspec

from driftq.errors import EventDamaged
from driftq.eventstore.append.canonical import content_hash
from driftq.model import Aggregate


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

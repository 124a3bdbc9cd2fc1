"""The kept form of an event, the same in SQL, in segments and on the way to Spark."""

from typing import Any

import msgspec


class StoredEvent(msgspec.Struct, frozen=True):
    """An event as it is kept, in SQL and in segments; texts stay encoded until somebody reads them."""

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


def stored_event(row: Any) -> StoredEvent:
    """From a row of the log that has its texts; the kind stands in the metadata."""
    return StoredEvent(kind=msgspec.json.decode(row.metadata, type=_Kind).kind, **row._mapping)

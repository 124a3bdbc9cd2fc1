"""Messages as rows of a table: what every message has, and what its envelope or its event says."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from driftq.server.entry import PREFIX_BYTES, decode_entry, produced_at

_EVENT_FIELDS = ("event_id", "aggregate_type", "aggregate_id")
_ENVELOPE_FIELDS = ("run_id", "step_id", "tenant_id", "idempotency_key")
COLUMNS = (
    "key",
    "value",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "envelope",
    *_ENVELOPE_FIELDS,
    *_EVENT_FIELDS,
    "sequence_number",
)

_encode = msgspec.json.Encoder().encode


class _EventPart(msgspec.Struct):
    """What of a value is looked at, where it is an event."""

    event_id: str | None = None
    aggregate_type: str | None = None
    aggregate_id: str | None = None
    sequence_number: int | None = None


_event = msgspec.json.Decoder(_EventPart)
_NO_EVENT = _EventPart()


def columns(topic: str, partition: int, messages: Iterable[tuple[int, bytes]]) -> dict[str, list[Any]]:
    """The columns of these messages, given as offset and stored form."""
    made: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for offset, entry in messages:
        stored = decode_entry(entry)
        event = _event_in(stored.value) if b"event_id" in entry[PREFIX_BYTES:] else _NO_EVENT
        envelope = stored.envelope
        made["key"].append(stored.key)
        made["value"].append(stored.value)
        made["topic"].append(topic)
        made["partition"].append(partition)
        made["offset"].append(offset)
        made["timestamp"].append(produced_at(entry) * 1000)
        made["envelope"].append(None if envelope is None else _encode(envelope).decode())
        for name in _ENVELOPE_FIELDS:
            made[name].append(None if envelope is None else getattr(envelope, name))
        for name in _EVENT_FIELDS:
            made[name].append(getattr(event, name))
        made["sequence_number"].append(event.sequence_number)
    return made


def _event_in(value: str) -> _EventPart:
    try:
        return _event.decode(value)
    except msgspec.DecodeError:
        return _NO_EVENT  # A value is the producer's own; nothing says that it is an event.

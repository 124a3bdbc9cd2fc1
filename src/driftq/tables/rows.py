"""Messages as rows of a table: the columns of every message, of its envelope and of its event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, Protocol

import msgspec

from driftq.model import Envelope, StoredMessage
from driftq.storage.entry import decode_entry, produced_at

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

HEADERS = "headers"
"""A column of the files that Spark's source shows on request."""

_AT_ONCE = 10_000
"""Values that are parsed for events together."""

_encode = msgspec.json.Encoder().encode


class Stored(Protocol):
    """The parts of a message that become columns."""

    @property
    def key(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def envelope(self) -> Envelope | None: ...
    @property
    def headers(self) -> dict[str, str] | None: ...


class _EventPart(msgspec.Struct):
    """The parts of a value that become columns, where it is an event."""

    event_id: str | None = None
    aggregate_type: str | None = None
    aggregate_id: str | None = None
    sequence_number: int | None = None


_event = msgspec.json.Decoder(_EventPart)
_NO_EVENT = _EventPart()


def columns(topic: str, partition: int, messages: Iterable[tuple[int, bytes]]) -> dict[str, list[Any]]:
    """The columns of these messages, given as offset and stored form."""
    offsets: list[int] = []
    times_us: list[int] = []
    stored: list[StoredMessage] = []
    for offset, entry in messages:
        offsets.append(offset)
        times_us.append(produced_at(entry) * 1000)
        stored.append(decode_entry(entry))
    made = message_columns(stored) | {
        "topic": [topic] * len(stored),
        "partition": [partition] * len(stored),
        "offset": offsets,
        "timestamp": times_us,
    }
    return {name: made[name] for name in COLUMNS} | {HEADERS: header_column(stored)}


def message_columns(stored: Sequence[Stored]) -> dict[str, list[Any]]:
    """The columns that are in the messages themselves; a row is the same from whichever file it is read."""
    values = [message.value for message in stored]
    parts = range(0, len(values), _AT_ONCE)
    events = list(chain.from_iterable(_events_in(values[first : first + _AT_ONCE]) for first in parts))
    envelopes = [message.envelope for message in stored]
    made: dict[str, list[Any]] = {"key": [message.key for message in stored], "value": values}
    if any(one is not None for one in envelopes):
        made["envelope"] = [None if one is None else _encode(one).decode() for one in envelopes]
        for name in _ENVELOPE_FIELDS:
            made[name] = [None if one is None else getattr(one, name) for one in envelopes]
    else:  # Published events have none, and there are many of them.
        made |= dict.fromkeys(("envelope", *_ENVELOPE_FIELDS), envelopes)
    for name in (*_EVENT_FIELDS, "sequence_number"):
        made[name] = [getattr(event, name) for event in events]
    return made


def header_column(stored: Sequence[Stored]) -> list[Any]:
    """Headers as Kafka's source has them: names with bytes, in order; None where there are none."""
    return [
        [{"key": name, "value": value.encode()} for name, value in message.headers.items()]
        if message.headers
        else None
        for message in stored
    ]


def _events_in(values: list[str]) -> list[_EventPart]:
    """All at once where every value is an event on one line, which is how they are published."""
    if all("event_id" in value for value in values):
        try:
            events = _event.decode_lines("\n".join(values))
        except msgspec.DecodeError:
            events = []
        if len(events) == len(values):
            return events
    return [_event_in(value) if "event_id" in value else _NO_EVENT for value in values]


def _event_in(value: str) -> _EventPart:
    try:
        return _event.decode(value)
    except msgspec.DecodeError:
        return _NO_EVENT  # A value is the producer's own; it need not be an event.

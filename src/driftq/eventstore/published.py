"""An event as it travels on a topic: the one place that knows the topic's name and the event's JSON.

Key = aggregate id, value = the text made here. The stored texts of payload, metadata and schema version are
copied unchanged: publishing does not decode them, and an event always has the same text.

A topic's name is made from the aggregate type byte by byte, and can be read back, so two types never share a
topic. Light to load: the Python processes of Spark encode and decode events too.
"""

import datetime as dt
import hashlib
import string
from operator import attrgetter
from typing import Any

import msgspec

from driftq.errors import InvalidArgument
from driftq.eventstore.stored import StoredEvent
from driftq.model import Operation
from driftq.model.event import EventHead
from driftq.model.time import rfc3339_us
from driftq.telemetry.tracing import TRACEPARENT, is_traceparent

TOPIC_PREFIX = "events."
_TOPIC_NAME_MAX = 245
_PLAIN = frozenset((string.ascii_letters + string.digits + "-").encode())


def topic_of(aggregate_type: str) -> str:
    """The topic for events of this type: bytes outside A-Z a-z 0-9 and - are written `_XX`.

    A type too long for a topic's name keeps its beginning and ends in `_.` and its SHA-256; nothing else is
    written like that.
    """
    spelled = [chr(byte) if byte in _PLAIN else f"_{byte:02X}" for byte in aggregate_type.encode()]
    name = TOPIC_PREFIX + "".join(spelled)
    if len(name) <= _TOPIC_NAME_MAX:
        return name
    ending = "_." + hashlib.sha256(aggregate_type.encode()).hexdigest()
    kept = name[: _TOPIC_NAME_MAX - len(ending)]
    return kept + ending


class PublishedEvent(EventHead, frozen=True, kw_only=True):
    """A message of `events.<type>` as its consumer reads it. Older readers ignore later fields."""

    operation: Operation
    occurred_at: dt.datetime
    payload: Any
    metadata: dict[str, Any]
    schema_version: int | str
    position: int


class StateEvent(msgspec.Struct):
    """What is read of a published event that carries the whole state of its aggregate."""

    event_id: str
    payload: msgspec.Raw
    operation: Operation = Operation.APPEND

    @property
    def state(self) -> str | None:
        return None if self.operation is Operation.DELETE else bytes(self.payload).decode()


PUBLISHED_COLUMNS = PublishedEvent.__struct_fields__
"""The columns of a segment that a published event is made of, in its order."""

_Text: Any = msgspec.defstruct("_Text", PUBLISHED_COLUMNS, gc=False)
"""The same fields in the same order, with the stored texts as they are."""
_stored_fields = attrgetter(
    *({"occurred_at": "occurred_at_us"}.get(name, name) for name in PUBLISHED_COLUMNS)
)
_TRACED = f'"{TRACEPARENT}"'
_decode_metadata = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(PublishedEvent).decode
decode_state_event = msgspec.json.Decoder(StateEvent).decode


def encode_published(event: StoredEvent) -> str:
    """The message's value for a stored event."""
    return encode_fields(*_stored_fields(event)).decode()


def published_row(event: StoredEvent) -> tuple[Any, ...]:
    """The values of `PUBLISHED_COLUMNS`, with the instant in microseconds."""
    return tuple(_stored_fields(event))


def encode_fields(
    event_id: str,
    aggregate_type: str,
    aggregate_id: str,
    sequence_number: int,
    event_type: str,
    kind: str,
    operation: str,
    occurred_at_us: int,
    payload: str,
    metadata: str,
    schema_version: str,
    position: int,
) -> bytes:
    """The same, given the values of `PUBLISHED_COLUMNS` with the instant in microseconds."""
    return _encode(
        _Text(
            event_id,
            aggregate_type,
            aggregate_id,
            sequence_number,
            event_type,
            kind,
            operation,
            rfc3339_us(occurred_at_us),
            msgspec.Raw(payload),
            msgspec.Raw(metadata),
            msgspec.Raw(schema_version),
            position,
        )
    )


def trace_of(metadata: str) -> str | None:
    """The `traceparent` in the stored metadata of an event; nearly all events have none."""
    if _TRACED not in metadata:
        return None
    found = _decode_metadata(metadata).get(TRACEPARENT)
    return found if isinstance(found, str) and is_traceparent(found) else None


def decode_published(value: str | bytes) -> PublishedEvent:
    """The event that a message's value holds; raises InvalidArgument when it holds none."""
    try:
        return _decode(value)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("value", f"is not a published event: {error}") from None

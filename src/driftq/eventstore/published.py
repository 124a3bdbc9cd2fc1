"""An event as a message of a topic: the only module that knows its JSON.

Key = aggregate id, value = the text made here. The stored texts of payload, metadata and schema version are
copied unchanged: publishing does not decode them, and an event always has the same text.
"""

import datetime as dt
from operator import attrgetter
from typing import Any

import msgspec

from driftq.errors import InvalidArgument
from driftq.eventstore.stored import StoredEvent
from driftq.model import Operation
from driftq.model.event import EventHead
from driftq.model.time import rfc3339_us


class PublishedEvent(EventHead, frozen=True, kw_only=True):
    """A message of `events.<type>` as its consumer reads it. Older readers ignore later fields."""

    operation: Operation
    occurred_at: dt.datetime
    payload: Any
    metadata: dict[str, Any]
    schema_version: int | str
    position: int


_Text: Any = msgspec.defstruct("_Text", PublishedEvent.__struct_fields__, gc=False)
"""The same fields in the same order, with the stored texts as they are."""
_stored_fields = attrgetter(
    *({"occurred_at": "occurred_at_us"}.get(name, name) for name in PublishedEvent.__struct_fields__)
)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(PublishedEvent).decode


def encode_published(event: StoredEvent) -> str:
    """The message's value for a stored event."""
    text = _Text(*_stored_fields(event))
    text.occurred_at = rfc3339_us(event.occurred_at_us)
    text.payload = msgspec.Raw(event.payload)
    text.metadata = msgspec.Raw(event.metadata)
    text.schema_version = msgspec.Raw(event.schema_version)
    return _encode(text).decode()


def decode_published(value: str | bytes) -> PublishedEvent:
    """The event that a message's value holds; raises InvalidArgument when it holds none."""
    try:
        return _decode(value)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("value", f"is not a published event: {error}") from None

"""An event as it travels on a topic: the one place that knows its JSON.

Key = aggregate id, value = the text made here. The stored texts of payload, metadata and schema version are
put in as they are: publishing neither decodes nor changes them, and an event always has the same text.
"""

import datetime as dt
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.errors import InvalidArgument
from driftq.model import Aggregate, Operation
from driftq.model.time import rfc3339_us

if TYPE_CHECKING:
    from driftq.eventstore.seal.segment import StoredEvent


class PublishedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What a consumer of `events.<type>` reads. Fields that are added later do not disturb older readers."""

    event_id: str
    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    event_type: str
    kind: str
    operation: Operation
    occurred_at: dt.datetime
    payload: Any
    metadata: dict[str, Any]
    schema_version: int | str
    position: int

    @property
    def aggregate(self) -> Aggregate:
        return Aggregate(self.aggregate_type, self.aggregate_id)


class _Text(msgspec.Struct, frozen=True):
    """The same with the stored texts left as they are; the order of its fields is the order in the text."""

    event_id: str
    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    event_type: str
    kind: str
    operation: str
    occurred_at: str
    payload: msgspec.Raw
    metadata: msgspec.Raw
    schema_version: msgspec.Raw
    position: int


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(PublishedEvent).decode


def encode_published(event: "StoredEvent") -> str:
    """The message's value for a stored event."""
    text = _Text(
        event.event_id,
        event.aggregate_type,
        event.aggregate_id,
        event.sequence_number,
        event.event_type,
        event.kind,
        event.operation,
        rfc3339_us(event.occurred_at_us),
        msgspec.Raw(event.payload),
        msgspec.Raw(event.metadata),
        msgspec.Raw(event.schema_version),
        event.position,
    )
    return _encode(text).decode()


def decode_published(value: str | bytes) -> PublishedEvent:
    """The event that a message's value holds; raises InvalidArgument when it holds none."""
    try:
        return _decode(value)
    except (ValueError, RecursionError) as error:
        raise InvalidArgument("value", f"is not a published event: {error}") from None

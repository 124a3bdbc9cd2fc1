"""Events that a handler derives from its event.

Their ids are made from the handler, the source event and the index in the list: another run of the handler
for the same event makes the same ids, and the event store stores each id once.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from driftq.errors import InvalidArgument
from driftq.eventstore.append.draft import draft
from driftq.eventstore.options import AllocatorMode
from driftq.eventstore.outcome import Append
from driftq.model import Event

_NAMESPACE = uuid.UUID("5f1d2c9e-3f7b-5c55-9f0e-6b8f6a1d7c21")


class DerivedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that follows from the handled event; it is appended to the event store without conditions."""

    aggregate_type: str
    aggregate_id: str
    event_type: str
    payload: Any
    kind: str = "fact"
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    schema_version: int | str = 1


def derived_id(handler: str, source_id: str, index: int) -> str:
    """The id of the derived event at this index of the list."""
    name = msgspec.json.encode([handler, source_id, index]).decode()
    return str(uuid.uuid5(_NAMESPACE, name))


def derived_texts(handler: str, source_id: str, made: object) -> list[str]:
    """A handler's return value, in the form stored until the event store has it.

    Raises InvalidArgument for events that the store would refuse: then the attempt has failed, and nothing is
    stored.
    """
    if made is None:
        return []
    if not isinstance(made, Sequence) or not all(isinstance(derived, DerivedEvent) for derived in made):
        raise InvalidArgument("handler", f"{handler!r} must return None or a list of DerivedEvent")
    return [
        _text(derived, derived_id(handler, source_id, index), source_id) for index, derived in enumerate(made)
    ]


def decode_event(text: str) -> Event:
    """The event to append."""
    return msgspec.json.decode(text, type=Event)


def _text(derived: DerivedEvent, event_id: str, source_id: str) -> str:
    fields = msgspec.structs.asdict(derived) | {"metadata": derived.metadata | {"causation_id": source_id}}
    event = Event(event_id=event_id, **fields)
    draft(Append(event), event.aggregate, 0, mode=AllocatorMode.SQLITE, now_us=0)
    try:
        return msgspec.json.encode(event).decode()
    except (TypeError, ValueError, RecursionError) as wrong:
        raise InvalidArgument("payload", f"cannot be written as JSON: {wrong}") from None

"""A message as produced, as stored and as routed."""

from typing import Any, TypeVar

import msgspec

from driftq.model.envelope import Envelope

_T = TypeVar("_T")


class Routing(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A router's label and metadata for a message; stored with it and sent to consumers."""

    label: str = ""
    meta: dict[str, str] | None = None


class RoutingDecision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A router's decision. Controls that are None leave the producer's own unchanged."""

    label: str = ""
    target_topic: str | None = None
    partition_override: int | None = None
    meta: dict[str, str] | None = None


class Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message as a producer sends it: a payload for a topic."""

    topic: str
    value: str
    key: str = ""
    envelope: Envelope | None = None
    routing: Routing | None = None
    headers: dict[str, str] | None = None

    def json(self) -> Any:
        """The value, read as JSON; raises ValueError."""
        return msgspec.json.decode(self.value)

    def decode(self, kind: type[_T]) -> _T:
        """The value, read as JSON of this type (a dataclass, a TypedDict, …); raises ValueError."""
        return msgspec.json.decode(self.value, type=kind)


class StoredMessage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The part of a message that is kept as JSON text and spliced into every delivery."""

    key: str
    value: str
    envelope: Envelope | None = None
    routing: Routing | None = None
    requested_topic: str | None = None
    headers: dict[str, str] | None = None

"""An event: one fact or command in the life of an aggregate."""

import datetime as dt
import enum
from typing import Any, NamedTuple

import msgspec


class Operation(enum.StrEnum):
    """An event's role for its aggregate, which decides the required `expected_seq`."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    APPEND = "append"


class Aggregate(NamedTuple):
    """The aggregate of an event. Two parts, compared byte for byte and never concatenated."""

    type: str
    id: str


class EventHead(msgspec.Struct, frozen=True):
    """The fields of every stored event in any representation: its id, its aggregate and its type."""

    event_id: str
    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    event_type: str
    kind: str

    @property
    def aggregate(self) -> Aggregate:
        return Aggregate(self.aggregate_type, self.aggregate_id)


class Event(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event as a writer appends it and a reader gets it.

    The store fills in the fields that a writer leaves out: `sequence_number` (place in the aggregate, from
    1), `position` (place in the log, from 1, None until the event has one) and `occurred_at`. `kind` is kept
    as `metadata["kind"]`; a reader finds it in both places.
    """

    event_id: str
    aggregate_type: str
    aggregate_id: str
    event_type: str
    payload: Any
    kind: str | None = None
    operation: Operation = Operation.APPEND
    sequence_number: int | None = None
    occurred_at: dt.datetime | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    schema_version: int | str = 1
    position: int | None = None

    @property
    def aggregate(self) -> Aggregate:
        return Aggregate(self.aggregate_type, self.aggregate_id)

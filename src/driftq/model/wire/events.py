"""The event store: appending events, reading an aggregate, following the log, groups that follow it."""

from __future__ import annotations

import datetime as dt
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from driftq.model.event import Event, EventHead
from driftq.model.reply import Reply
from driftq.model.wire.fields import Natural, Positive, Request

Identity = Annotated[str, Meta(min_length=1)]
OperationName = Literal["create", "update", "delete", "append"]
FOLLOW_WAIT_MS_MAX = 60_000
WaitMs = Annotated[int, Meta(ge=0, le=FOLLOW_WAIT_MS_MAX)]


class EventBody(Request, frozen=True):
    """An event to be appended."""

    event_id: Identity
    aggregate_type: str
    aggregate_id: str
    event_type: Identity
    operation: OperationName
    payload: Any
    kind: str | None = None
    expected_seq: Natural | None = None
    metadata: dict[str, Any] | None = None
    occurred_at: dt.datetime | None = None
    schema_version: int | str | None = None
    sequence_number: Natural | None = None


class AggregateQuery(Request, frozen=True):
    """Which events of which aggregate."""

    aggregate_type: str
    aggregate_id: str
    from_seq: Natural | None = None
    limit: Natural | None = None


class LogQuery(Request, frozen=True):
    """Which part of the event log."""

    from_: Natural | None = field(name="from", default=None)
    limit: Natural | None = None
    stored: bool | None = None
    """The stored form: payload, metadata and schema_version as texts, `occurred_at_us`, the hash."""
    wait_ms: WaitMs | None = None
    """How long to wait for an event, if there is none yet; 0 by default."""
    aggregate_type: str | None = None
    event_type: Identity | None = None


class LogEndReply(msgspec.Struct, frozen=True):
    """The end of the log."""

    position: int
    """Of the last event; 0 when there is none."""
    instance: str
    """Changes with each start of the server; a file in its data folder has it too."""


class EventReceipt(Reply, frozen=True, omit_defaults=True):
    """Where an event is: stored now, or before when it is a duplicate."""

    event_id: str
    sequence_number: int
    duplicate: bool
    payload_mismatch: bool = False


class EventReceipts(msgspec.Struct, frozen=True):
    """An appended list of events: how many, and the receipt of each, in order."""

    appended: int
    failed: int
    results: list[EventReceipt]


class EventLine(EventHead, frozen=True, omit_defaults=True):
    """A stored event; `position` is missing until the event has one in the log."""

    operation: OperationName
    occurred_at: dt.datetime
    payload: Any
    metadata: dict[str, Any]
    schema_version: int | str
    position: int | UnsetType = UNSET

    @classmethod
    def of(cls, event: Event) -> EventLine:
        return cls(
            event_id=event.event_id,
            aggregate_type=event.aggregate_type,
            aggregate_id=event.aggregate_id,
            sequence_number=event.sequence_number or 0,
            event_type=event.event_type,
            kind=event.kind or "",
            operation=event.operation.value,
            occurred_at=event.occurred_at or dt.datetime.now(dt.UTC),
            payload=event.payload,
            metadata=event.metadata,
            schema_version=event.schema_version,
            position=UNSET if event.position is None else event.position,
        )


class EventsReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Events of one aggregate in sequence order; `next_seq` when there are more."""

    events: list[EventLine]
    next_seq: int | UnsetType = UNSET


FOLLOW_EVENTS_MAX = 10_000


class OpenFollowerBody(Request, frozen=True):
    """How a new group begins: with the first event, or with the next one. An existing group goes on."""

    start: Literal["earliest", "latest"] | None = None


class FollowerReply(Reply, frozen=True):
    """A group that was opened: this token alone moves its position from now on."""

    group: str
    token: int
    position: int
    """Everything up to here is handled; 0 when nothing is."""


class FollowBody(Request, frozen=True):
    """The next events of a group. `position`, if it is given, moves the group there first."""

    token: Positive
    position: Natural | None = None
    limit: Annotated[int, Meta(ge=1, le=FOLLOW_EVENTS_MAX)] | None = None
    wait_ms: WaitMs | None = None
    aggregate_type: str | None = None
    event_type: Identity | None = None


class FollowReply(msgspec.Struct, frozen=True):
    """Events in log order. `next_position` is behind everything that was looked at, wanted or not."""

    events: list[EventLine]
    next_position: int


class MoveFollowerBody(Request, frozen=True):
    """Everything up to `position` is handled."""

    token: Positive
    position: Natural


class FollowerLine(msgspec.Struct, frozen=True):
    """A group in the list; `lag` is how many events of the log are behind its position."""

    group: str
    position: int
    lag: int
    moved_at: str


class FollowersReply(msgspec.Struct, frozen=True):
    """Groups by name; `after` continues the list when there are more."""

    groups: list[FollowerLine]
    after: str | None = None

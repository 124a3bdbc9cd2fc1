"""Groups that follow the event log: opening one, reading on, moving its position."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from driftq.model.reply import Reply
from driftq.model.wire.events import EventLine, Identity, WaitMs
from driftq.model.wire.fields import Natural, Positive, Request

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

"""What the dashboard asks for: logging in, its live numbers, and lists with more than names."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from driftq.model.wire.fields import Name, Request, TopicName

VIEW_MAX = 500


class LoginBody(Request, frozen=True):
    """The API key to log in with."""

    key: Annotated[str, Meta(min_length=1, max_length=1_000)]


class LiveRates(msgspec.Struct, frozen=True):
    """Per second, since the event before."""

    produced: float
    delivered: float
    acked: float
    dead_lettered: float
    jobs_enqueued: float
    jobs_completed: float
    requests: float


class LiveJobs(msgspec.Struct, frozen=True):
    """Jobs by state. `scheduled` is null where too many wait to count them: `ready` has all of them then."""

    ready: int
    scheduled: int | None
    blocked: int
    in_flight: int
    dead: int


class LiveTopic(msgspec.Struct, frozen=True):
    """A topic with the unsettled messages of all its groups."""

    topic: str
    lag: int
    in_flight: int


class LiveDeadLetters(msgspec.Struct, frozen=True):
    """Dead letters of a topic that were neither redriven nor purged."""

    topic: str
    messages: int


class LiveStream(msgspec.Struct, frozen=True):
    """A stream whose owner lets leases expire and sends nothing."""

    topic: str
    group: str
    owner: str


class UnreadGroup(msgspec.Struct, frozen=True):
    """A group that has messages to read, and no open stream."""

    topic: str
    group: str
    lag: int


class LivePoint(msgspec.Struct, frozen=True):
    """A past moment, for the charts."""

    at: str
    produced: float
    acked: float
    dead_lettered: float
    in_flight: int
    lag: int
    dead_letters: int
    answer_ms: float


class LiveOverview(msgspec.Struct, frozen=True, kw_only=True):
    """One event of `/v1/ui/live`, with what its caller may see."""

    at: str
    rates: LiveRates | None
    """Null for the first event, and for a key that does not see all topics: the counters are the server's."""
    topics: int
    groups: int
    streams: int
    messages: int
    lag: int
    in_flight: int
    dead_letters: int
    jobs: LiveJobs | None
    """Null for a key that does not see all queues."""
    unknown_steps: int
    """Steps that wait for a decision."""
    answer_ms: float
    """How long the broker took to answer: a read waits for the commit under way."""
    slowest: list[LiveTopic]
    """The topics with the most unsettled messages."""
    dead_letter_topics: list[LiveDeadLetters]
    stalled: list[LiveStream]
    unread: list[UnreadGroup]
    past: list[LivePoint] = []
    """In the first event only: what others have seen before."""


class ViewQuery(Request, frozen=True):
    """Part of a list, by name; `match` is a part of the names."""

    match: str | None = None
    limit: Annotated[int, Meta(ge=1, le=VIEW_MAX)] | None = None
    after: str | None = None


class GroupsViewQuery(Request, frozen=True):
    """Part of the list of groups; `after` is `TOPIC/GROUP`."""

    match: str | None = None
    topic: TopicName | None = None
    limit: Annotated[int, Meta(ge=1, le=VIEW_MAX)] | None = None
    after: str | None = None


class LeasesQuery(Request, frozen=True):
    """Whose deliveries."""

    topic: TopicName
    group: Name | None = None
    limit: Annotated[int, Meta(ge=1, le=VIEW_MAX)] | None = None


class TopicSummary(msgspec.Struct, frozen=True):
    topic: str
    partitions: int
    messages: int
    bytes: int
    groups: int
    streams: int
    lag: int
    in_flight: int
    dead_letters: int


class TopicSummaries(msgspec.Struct, frozen=True):
    """A page of topics; with `after` there are more."""

    topics: list[TopicSummary]
    after: str | None


class GroupSummary(msgspec.Struct, frozen=True):
    topic: str
    group: str
    lag: int
    in_flight: int
    streams: int
    stalled: int


class GroupSummaries(msgspec.Struct, frozen=True):
    """A page of groups; with `after` there are more."""

    groups: list[GroupSummary]
    after: str | None


class LeaseView(msgspec.Struct, frozen=True):
    """A delivery: who holds the message, and until when."""

    group: str
    partition: int
    offset: int
    owner: str
    attempt: int
    lease_until: str


class LeasesReply(msgspec.Struct, frozen=True):
    """The deliveries that end first."""

    leases: list[LeaseView]
    in_flight: int
    """All of them."""
    retention_ms: int
    retention_bytes: int | None
    created_at: str


class OpenStepsQuery(Request, frozen=True):
    """How many steps of each state."""

    limit: Annotated[int, Meta(ge=1, le=VIEW_MAX)] | None = None


class OpenStepView(msgspec.Struct, frozen=True):
    """A step that began and has not ended; an unknown one waits for a decision."""

    run_id: str
    step_id: str
    group: str
    tenant_id: str
    state: Literal["in_flight", "unknown", "lapsed"]
    """A lapsed step is idempotent: its next run begins it again."""
    attempts: int
    owner: str
    at: str
    lease_until: str


class OpenStepsReply(msgspec.Struct, frozen=True):
    """Those that wait for a decision first, then those that began longest ago."""

    steps: list[OpenStepView]
    unknown: int
    in_flight: int

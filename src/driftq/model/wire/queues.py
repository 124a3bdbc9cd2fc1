"""Queues with their limits and pauses, and schedules."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from driftq.model.wire.fields import Name, Positive, Request
from driftq.model.wire.jobs import PAGE_MAX, RETRIES_MAX, JobRetryBody, JobRetryView, Priority, TimeoutMs

RATE_COUNT_MAX = 100_000
RATE_PER_MS_MAX = 86_400_000

Missed = Literal["skip", "last", "all"]


class RateLimit(Request, frozen=True):
    """At most `count` claims in any window of `per_ms` milliseconds."""

    count: Annotated[int, Meta(ge=1, le=RATE_COUNT_MAX)]
    per_ms: Annotated[int, Meta(ge=1, le=RATE_PER_MS_MAX)]


class KeyLimits(Request, frozen=True, omit_defaults=True):
    """The limits of each limit key."""

    concurrency: Positive | None = None
    rate: RateLimit | None = None


class LimitsBody(KeyLimits, frozen=True, omit_defaults=True):
    """The limits of a queue; what is left out, or null, is not limited."""

    per_key: KeyLimits | None = None


class SetLimitsBody(LimitsBody, frozen=True, omit_defaults=True):
    """The limits of a queue, and perhaps the tenant that owns it from now on."""

    tenant: Name | None = None


class QueueReply(msgspec.Struct, frozen=True):
    """The flow control of a queue."""

    queue: str
    paused: bool
    limits: LimitsBody


class QueueView(msgspec.Struct, frozen=True, kw_only=True):
    """A queue: how many jobs are in each state, and its flow control."""

    queue: str
    ready: int
    scheduled: int
    blocked: int
    in_flight: int
    dead: int
    oldest_age_ms: int | None
    """How long the job has been due that has been ready for longest; null when none is ready."""
    paused: bool
    limits: LimitsBody


class QueuesQuery(Request, frozen=True):
    """Which queues, by name; `after` is the last one seen."""

    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] | None = None
    after: str | None = None


class QueuesReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of queues; with `after` there are more: pass it in the next request."""

    queues: list[QueueView]
    after: str | None = None


class ScheduleContent(Request, frozen=True):
    """When a schedule fires, and which job it enqueues then."""

    cron: Annotated[str, Meta(min_length=1)]
    queue: Name
    task: Name
    timezone: Name | None = None
    payload: msgspec.Raw | UnsetType = UNSET
    missed: Missed | None = None
    priority: Priority | None = None
    max_retries: Annotated[int, Meta(ge=0, le=RETRIES_MAX)] | None = None
    retry: JobRetryBody | None = None
    """Not together with `max_retries`, where n retries are n + 1 attempts."""
    timeout_ms: TimeoutMs | None = None


class ScheduleBody(ScheduleContent, frozen=True, kw_only=True):
    """A schedule: its name, when it fires, and which job it enqueues then."""

    name: Name


class ReplaceScheduleBody(ScheduleContent, frozen=True, kw_only=True):
    """The same for the schedule that the path names; `name`, if given, must be that name."""

    name: Name | None = None


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule, its latest fire and its next one."""

    name: str
    cron: str
    timezone: str
    queue: str
    task: str
    payload: Any
    missed: str
    priority: int
    max_retries: int
    retry: JobRetryView | None = None
    timeout_ms: int | None = None
    paused: bool = msgspec.field(default_factory=bool)
    next_at: str | None = msgspec.field(default_factory=lambda: None)
    """Null while it is paused."""
    last_at: str | None = msgspec.field(default_factory=lambda: None)
    last_job_id: str | None = None
    fired: int
    """How many jobs its fires have enqueued."""
    created_at: str


class SchedulesReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of schedules, by name; with `after` there are more: pass it in the next request."""

    schedules: list[ScheduleView]
    after: str | None = None


class RemovedSchedule(msgspec.Struct, frozen=True):
    name: str
    status: Literal["removed"] = "removed"

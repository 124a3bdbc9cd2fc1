"""Jobs: enqueue one or many, claim, settle, show, requeue."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from driftq.model.reply import Reply
from driftq.model.wire.fields import KEY_MAX, OR_ERROR, LeaseMs, Name, Positive, Reason, Request

ATTEMPTS_MAX = 10_000
WAIT_MS_LONGEST = 366 * 86_400_000
METADATA_NAMES_MAX = 64
METADATA_BYTES_MAX = 8_192

Attempts = Annotated[int, Meta(ge=1, le=ATTEMPTS_MAX)]
WaitMs = Annotated[int, Meta(ge=0, le=WAIT_MS_LONGEST)]
Jitter = Literal["full", "none"]
Metadata = Annotated[
    dict[str, str],
    Meta(max_length=METADATA_NAMES_MAX, description=f"At most {METADATA_BYTES_MAX} bytes together."),
]


class JobRetryBody(Request, frozen=True, omit_defaults=True):
    """How a job is retried: before retry k it waits up to `base_ms` · 2^(k-1), at most `cap_ms`.

    With the jitter "none" it waits exactly that long. What is not given is the server's default.
    """

    max_attempts: Attempts | None = None
    base_ms: WaitMs | None = None
    cap_ms: WaitMs | None = None
    jitter: Jitter | None = None


class JobRetryView(msgspec.Struct, frozen=True):
    """The retry policy of a job."""

    max_attempts: int
    base_ms: int
    cap_ms: int
    jitter: Jitter


CLAIM_MAX = 10_000
WAIT_MS_MAX = 300_000
END_WAIT_MS_MAX = 60_000
PAGE_MAX = 1_000
RETRIES_MAX = 1_000
AFTER_MAX = 1_000
_STATES = ["ready", "scheduled", "blocked", "in_flight", "succeeded", "dead"]

Priority = Annotated[int, Meta(ge=0, le=9)]
TimeoutMs = Annotated[int, Meta(ge=1, le=2**53)]
JobKey = Annotated[str, Meta(max_length=KEY_MAX)]
JobState = Literal["ready", "scheduled", "blocked", "in_flight", "succeeded", "dead"]
ShownState = Annotated[str, Meta(extra_json_schema={"enum": _STATES})]


class JobBody(Request, frozen=True):
    """A job to be enqueued. A larger priority is claimed sooner; the default is 5."""

    queue: Name
    task: Name
    payload: msgspec.Raw
    priority: Priority | None = None
    run_at: str | None = None
    idempotency_key: JobKey | None = None
    max_retries: Annotated[int, Meta(ge=0, le=RETRIES_MAX)] | None = None
    timeout_ms: TimeoutMs | None = None
    retry: JobRetryBody | None = None
    """Not together with `max_retries`, where n retries are n + 1 attempts."""
    metadata: Metadata | None = None
    limit_key: JobKey | None = None
    after: Annotated[list[str], Meta(max_length=AFTER_MAX)] | None = None
    traceparent: str | None = None
    """The W3C trace context that its runs continue."""


class EnqueuedJob(Reply, frozen=True, omit_defaults=True):
    """The new job, or with `duplicate` the one that has its key."""

    job_id: str
    state: ShownState
    duplicate: bool = field(default_factory=bool)
    payload_mismatch: bool = False


class ClaimBody(Request, frozen=True):
    """The owner, how many jobs of which queues it wants, and how long it waits when there are none."""

    queues: Annotated[list[Name], Meta(min_length=1, max_length=1_000)]
    owner: Name
    lease_ms: LeaseMs
    max: Annotated[int, Meta(ge=1, le=CLAIM_MAX)]
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)] | None = None


class ClaimedJob(msgspec.Struct, frozen=True, omit_defaults=True):
    job_id: str
    queue: str
    task: str
    payload: Any
    priority: int
    attempt: int
    token: int
    lease_until: str
    max_attempts: int | None = None
    metadata: dict[str, str] | None = None
    traceparent: str | None = None


class ClaimReply(msgspec.Struct, frozen=True):
    jobs: list[ClaimedJob]


class HeartbeatBody(Request, frozen=True):
    """Renews the lease of a job; without `lease_ms` for its old length."""

    token: Positive
    lease_ms: LeaseMs | None = None


class CompleteBody(Request, frozen=True):
    token: Positive
    result: msgspec.Raw | UnsetType = UNSET


class FailBody(Request, frozen=True):
    token: Positive
    error: Reason
    retryable: bool | None = None


class JobEnd(Request, frozen=True, omit_defaults=True):
    """The settlement of one run: `result` is for "complete", `error` and `retryable` for "fail"."""

    job_id: str
    token: Positive
    outcome: Literal["complete", "fail"]
    result: Any = UNSET
    error: Reason | None = None
    retryable: bool | None = None


class JobSettlement(JobEnd, frozen=True):
    """The settlement of one run: `result` is for "complete", `error` and `retryable` for "fail"."""

    result: msgspec.Raw | UnsetType = UNSET


class SettleBody(Request, frozen=True):
    """The settlements of many runs."""

    owner: Name
    results: list[JobSettlement]


class SettleParts(Request, frozen=True):
    """The same with each item undecoded."""

    owner: Name
    results: list[msgspec.Raw]


class SettledJob(msgspec.Struct, frozen=True):
    status: Literal["settled"]


class SettleReply(msgspec.Struct, frozen=True):
    """One for each, in order."""

    results: Annotated[list[SettledJob], OR_ERROR]


class JobsQuery(Request, frozen=True):
    """Which jobs, oldest first; `after` is the id of the last one seen."""

    queue: Name | None = None
    state: JobState | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] | None = None
    after: str | None = None


class JobQuery(Request, frozen=True):
    """With `wait_ms` the reply comes when the job has ended, or when that time is over."""

    wait_ms: Annotated[int, Meta(ge=0, le=END_WAIT_MS_MAX)] | None = None


class JobReply(msgspec.Struct, frozen=True):
    job_id: str
    state: ShownState


class JobAttempt(msgspec.Struct, frozen=True):
    owner: str
    started_at: str
    ended_at: str | None
    error: str | None


class JobView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A job with its runs."""

    job_id: str
    queue: str
    task: str
    payload: Any
    state: ShownState
    priority: int
    attempts: int
    """Since it was enqueued or requeued; the history has all of them."""
    max_retries: int
    timeout_ms: int | None = None
    idempotency_key: str | None = None
    enqueued_at: str
    run_at: str
    """When it was, or will be, due for its latest attempt."""
    last_error: str
    owner: str | None = None
    lease_until: str | None = None
    result: Any | msgspec.UnsetType = msgspec.UNSET
    error: str | None = None
    """Why it is dead; absent in every other state."""
    retry: JobRetryView | None = None
    metadata: dict[str, str] | None = None
    history: list[JobAttempt]
    limit_key: str | None = None
    after: list[str] = []
    """The jobs that have to succeed first."""
    waits_for: list[str] = []
    """Those of them that have not succeeded yet, while the job is blocked."""


class JobsReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of jobs; with `after` there are more: pass it in the next request."""

    jobs: list[JobView]
    after: str | None = None


class JobBatchBody(Request, frozen=True):
    """The jobs to enqueue."""

    jobs: list[JobBody]


class JobBatchParts(Request, frozen=True):
    """The same with each job undecoded."""

    jobs: list[msgspec.Raw]


class JobBatchReply(msgspec.Struct, frozen=True):
    """One for each, in order."""

    results: Annotated[list[EnqueuedJob], OR_ERROR]


class DeadJobMatch(Request, frozen=True, omit_defaults=True):
    """A filter for dead jobs; all fields must match. `error` is a substring, times are RFC 3339.

    `since` and `until` are about the time at which the job became dead.
    """

    task: Name | None = None
    error: Reason | None = None
    since: str | None = None
    until: str | None = None


class RequeueBody(Request, frozen=True, omit_defaults=True):
    """The dead jobs to requeue; without a selection all of them."""

    queue: Name | None = None
    filter: DeadJobMatch | None = None
    dry_run: bool | None = None
    rate_per_s: Positive | None = None


class RequeuedJobs(Reply, frozen=True):
    """How many dead jobs matched, and how many were requeued."""

    matched: int
    requeued: int

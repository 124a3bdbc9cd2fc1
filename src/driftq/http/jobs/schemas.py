"""What may be asked about jobs, and what is answered."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from driftq.http.api.schemas import LeaseMs, Name, Positive, Reason, Request
from driftq.model.job import ClaimedJob, JobView

CLAIM_MAX = 10_000
WAIT_MS_MAX = 300_000
PAGE_MAX = 1_000
RETRIES_MAX = 1_000
KEY_MAX = 65_536

Priority = Annotated[int, Meta(ge=0, le=9)]
TimeoutMs = Annotated[int, Meta(ge=1, le=2**53)]
Key = Annotated[str, Meta(max_length=KEY_MAX)]
State = Literal["ready", "scheduled", "in_flight", "succeeded", "dead"]


class JobBody(Request, frozen=True):
    """A job to be enqueued. A larger priority is claimed sooner; the default is 5."""

    queue: Name
    task: Name
    payload: msgspec.Raw
    priority: Priority | None = None
    run_at: str | None = None
    idempotency_key: Key | None = None
    max_retries: Annotated[int, Meta(ge=0, le=RETRIES_MAX)] | None = None
    timeout_ms: TimeoutMs | None = None


class ClaimBody(Request, frozen=True):
    """Who wants how much work from where, and how long it waits when there is none."""

    queues: Annotated[list[Name], Meta(min_length=1, max_length=1_000)]
    owner: Name
    lease_ms: LeaseMs
    max: Annotated[int, Meta(ge=1, le=CLAIM_MAX)]
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)] | None = None


class HeartbeatBody(Request, frozen=True):
    """The job is still being worked on; without `lease_ms` the lease is as long again as it was."""

    token: Positive
    lease_ms: LeaseMs | None = None


class CompleteBody(Request, frozen=True):
    token: Positive
    result: msgspec.Raw | UnsetType = UNSET


class FailBody(Request, frozen=True):
    token: Positive
    error: Reason
    retryable: bool | None = None


class JobSettlement(Request, frozen=True):
    """The end of one run: `result` is for "complete", `error` and `retryable` for "fail"."""

    job_id: str
    token: Positive
    outcome: Literal["complete", "fail"]
    result: msgspec.Raw | UnsetType = UNSET
    error: Reason | None = None
    retryable: bool | None = None


class SettleBody(Request, frozen=True):
    """The ends of many runs."""

    owner: Name
    results: list[JobSettlement]


class SettleParts(Request, frozen=True):
    """The same with each result left as it came."""

    owner: Name
    results: list[msgspec.Raw]


class JobsQuery(Request, frozen=True):
    """Which jobs, oldest first; `after` is the id of the last one seen."""

    queue: Name | None = None
    state: State | None = None
    limit: Annotated[int, Meta(ge=1, le=PAGE_MAX)] | None = None
    after: str | None = None


class JobReply(msgspec.Struct, frozen=True):
    job_id: str
    state: State


class EnqueuedReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The new job, or with `duplicate` the one that has its key."""

    job_id: str
    state: State
    duplicate: bool
    payload_mismatch: bool = False


class ClaimReply(msgspec.Struct, frozen=True):
    jobs: list[ClaimedJob]


class JobsReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Part of the list; with `after` there is more, and that is what to ask for next."""

    jobs: list[JobView]
    after: str | None = None


class SettledResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one result: it has a status, or an error."""

    status: Literal["settled"] | None = None
    error: str | None = None
    message: str | None = None
    reason: str | None = None


class SettleReply(msgspec.Struct, frozen=True):
    """One for each, in order."""

    results: list[SettledResult]

"""The records of jobs. A job is named by its offset in the topic that stores payloads."""

import msgspec

from driftq.core.records import Record, register
from driftq.model.job import RetryTiming

CAUSE_FAILED = 1
CAUSE_LEASE_ENDED = 2
CAUSE_TIMED_OUT = 3


class JobTerms(msgspec.Struct, array_like=True, gc=False):
    """The execution options of one job."""

    offset: int
    queue: str
    priority: int
    run_at: int
    """When it is due: the user's instant, or the time of its enqueueing."""
    max_retries: int
    timeout_ms: int
    """0 is no limit."""
    fingerprint: int
    """Of its queue and idempotency key; 0 is none."""
    by_wall: bool = False
    """Whether `run_at` is the user's instant. Older logs lack it: there a time in the future is one."""
    retry: RetryTiming | None = None
    """None is the timing of spec 003."""
    limit_key: str = ""
    """Empty is none."""
    after: list[int] = []
    """The jobs that have to succeed first."""


class JobsEnqueued(Record):
    """New jobs; their payloads are messages in the same frame."""

    jobs: list[JobTerms]


class JobsClaimed(Record):
    """These jobs went to one owner, with consecutive tokens."""

    owner: str
    lease_ms: int
    first_token: int
    offsets: list[int]


class JobExtended(Record):
    offset: int
    lease_ms: int


class JobsCompleted(Record):
    offsets: list[int]
    results: list[str | None]


class FailedJob(msgspec.Struct, array_like=True, gc=False):
    offset: int
    due_at: int
    """When it is retried; -1 when it is given up."""
    error: str


class JobsFailed(Record):
    cause: int
    jobs: list[FailedJob]


class JobCancelled(Record):
    offset: int


class JobRequeued(Record):
    offset: int


register(40, JobsEnqueued)
register(41, JobsClaimed)
register(42, JobExtended)
register(43, JobsCompleted)
register(44, JobsFailed)
register(45, JobCancelled)
register(46, JobRequeued)

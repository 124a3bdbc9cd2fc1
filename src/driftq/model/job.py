"""A job as it is enqueued, stored and shown."""

import re
from typing import Any

import msgspec

from driftq.model.reply import Reply

JOB_PAYLOAD_MAX = 1 << 20
_NAME = re.compile(r"job-(0|[1-9][0-9]{0,12})")


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a producer of jobs asks for."""

    queue: str
    task: str
    payload: msgspec.Raw
    priority: int = 5
    run_at: int | None = None
    """Milliseconds; None is now."""
    idempotency_key: str = ""
    max_retries: int = 3
    timeout_ms: int = 0


class StoredJob(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The part of a job that is kept as JSON text."""

    queue: str
    task: str
    payload: msgspec.Raw
    priority: int
    max_retries: int
    timeout_ms: int = 0
    run_at: int | None = None
    idempotency_key: str = ""


class EnqueuedJob(Reply, frozen=True):
    job_id: str
    state: str
    duplicate: bool = False
    payload_mismatch: bool = False


class ClaimedJob(msgspec.Struct, frozen=True):
    job_id: str
    queue: str
    task: str
    payload: Any
    priority: int
    attempt: int
    token: int
    lease_until: str


class JobAttempt(msgspec.Struct, frozen=True):
    owner: str
    started_at: str
    ended_at: str | None
    error: str | None


class JobView(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Everything that is known of a job."""

    job_id: str
    queue: str
    task: str
    payload: Any
    state: str
    priority: int
    attempts: int
    """Since it was enqueued or requeued; the history has all that are known."""
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
    history: list[JobAttempt]


def job_id(offset: int) -> str:
    """The public name of a job."""
    return f"job-{offset}"


def job_offset(name: str) -> int | None:
    """What a public name stands for; None when it is no job's name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None

"""A job as it is enqueued, stored and shown."""

import msgspec

JOB_PAYLOAD_MAX = 1 << 20


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


class EnqueuedJob(msgspec.Struct, frozen=True):
    job_id: str
    state: str
    duplicate: bool = False
    payload_mismatch: bool = False


class ClaimedJob(msgspec.Struct, frozen=True):
    job_id: str
    queue: str
    task: str
    payload: msgspec.Raw
    priority: int
    attempt: int
    token: int
    lease_until: str


class JobAttempt(msgspec.Struct, frozen=True):
    owner: str
    started_at: str
    ended_at: str | None
    error: str | None


class JobView(msgspec.Struct, frozen=True):
    """Everything that is known of a job."""

    job_id: str
    queue: str
    task: str
    payload: msgspec.Raw
    state: str
    priority: int
    attempts: int
    max_retries: int
    run_at: str | None
    last_error: str
    result: msgspec.Raw | None
    history: list[JobAttempt]


def job_id(offset: int) -> str:
    """The public name of a job."""
    return f"job-{offset}"


def job_offset(name: str) -> int | None:
    """What a public name stands for; None when it is no job's name."""
    digits = name.removeprefix("job-")
    return int(digits) if name.startswith("job-") and digits.isascii() and digits.isdigit() else None

"""A job as it is enqueued and stored."""

import re

import msgspec

JOB_PAYLOAD_MAX = 1 << 20
_NAME = re.compile(r"job-(0|[1-9][0-9]{0,12})")


class JobRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A job as a producer enqueues it."""

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


def job_id(offset: int) -> str:
    """The public name of a job."""
    return f"job-{offset}"


def job_offset(name: str) -> int | None:
    """The offset of a public name; None when it is not a job's name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None

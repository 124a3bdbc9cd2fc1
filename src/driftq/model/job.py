"""A job as it is enqueued and stored."""

import msgspec

JOB_PAYLOAD_MAX = 1 << 20


class RetryTiming(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """When a job is retried: the wait doubles from a base up to a cap."""

    base_ms: int
    cap_ms: int
    full_jitter: bool = True
    """Any wait from 0 up to the whole one; without it exactly the whole one."""


FIRST_TIMING = RetryTiming(500, 30_000)
"""Of jobs that have none: those of older logs, and those of spec 003."""


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
    retry: RetryTiming | None = None
    """None is FIRST_TIMING."""
    metadata: dict[str, str] | None = None
    limit_key: str = ""
    after: list[int] = []
    """The jobs that have to succeed first, by their offsets."""
    traceparent: str | None = None


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
    retry: RetryTiming | None = None
    metadata: dict[str, str] | None = None
    limit_key: str = ""
    after: list[int] = []
    traceparent: str | None = None

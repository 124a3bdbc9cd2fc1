"""A job as it is enqueued and stored."""

import msgspec

JOB_PAYLOAD_MAX = 1 << 20


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
    traceparent: str | None = None

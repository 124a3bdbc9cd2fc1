"""The envelope: who a message belongs to, where it should go and how often it may be tried.

Fields are kept as the producer wrote them. A field that was not given is None and is left out wherever
the envelope is written.
"""

from __future__ import annotations

import msgspec

from driftq.model.wire.fields import Int64

MAX_BACKOFF_MS = 30_000
_LARGEST = 2**31 - 1


class MessageRetryPolicy(
    msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False
):
    """How often and at what intervals a message is redelivered."""

    max_attempts: Int64 | None = None
    backoff_ms: Int64 | None = None
    max_backoff_ms: Int64 | None = None

    def problem(self) -> str | None:
        """Why this policy is invalid, or None when it is valid."""
        for name in ("max_attempts", "backoff_ms", "max_backoff_ms"):
            number = getattr(self, name)
            if number is not None and not 0 <= number <= _LARGEST:
                return f"{name} must be from 0 to {_LARGEST}"
        cap = MAX_BACKOFF_MS if self.max_backoff_ms is None else self.max_backoff_ms
        if self.backoff_ms is not None and cap < self.backoff_ms:
            return f"max_backoff_ms ({MAX_BACKOFF_MS} when it is not given) must not be below backoff_ms"
        return None


class DeadLetterFacts(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Where a dead letter came from and why it was dead-lettered.

    The fields from `kind` on are those of workers, projections and the publisher; a group's dead letters
    lack them. `driftq.model.dead_letter` says what they mean.
    """

    original_topic: str
    original_partition: int
    original_offset: int
    group: str
    """Where there is a `kind`, the name of the handler."""
    attempts: int
    last_error: str
    reason: str
    at: str
    kind: str | None = None
    id: str | None = None
    stage: str | None = None
    event_id: str | None = None
    identity: str | None = None
    redrives: int = 0

    @property
    def given_up_by(self) -> str:
        """The group, or the handler as `worker:NAME`: a group may have the same name."""
        return self.group if self.kind is None else f"{self.kind}:{self.group}"


class EnvelopeBody(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, gc=False):
    """The fields that a client may set. The broker accepts it in place of an `Envelope`."""

    run_id: str | None = None
    step_id: str | None = None
    parent_step_id: str | None = None
    tenant_id: str | None = None
    idempotency_key: str | None = None
    target_topic: str | None = None
    partition_override: Int64 | None = None
    deadline: str | None = None
    retry_policy: MessageRetryPolicy | None = None
    traceparent: str | None = None
    deliver_at: str | None = None
    """RFC 3339: no group gets the message before this instant."""


class Envelope(EnvelopeBody, frozen=True):
    """What travels with a message besides key and value; clients may not set `labels` and `dlq`."""

    labels: dict[str, str] | None = None
    dlq: DeadLetterFacts | None = None

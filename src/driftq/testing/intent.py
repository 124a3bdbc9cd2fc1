"""A message as a producer intends it, before it is sent."""

from __future__ import annotations

from dataclasses import dataclass

from driftq.model import Envelope, Message
from driftq.testing.checkers import fnv1a

PAST = "2001-01-01T00:00:00Z"

Identity = tuple[str, str, str]
"""Tenant, requested topic, idempotency key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One message as a producer intends it. Its value is unique unless it is a retry of the same intent."""

    topic: str
    requested_topic: str
    key: str
    value: str
    override: int | None = None
    identity: Identity | None = None
    expired: bool = False
    """Its deadline had passed when it was sent."""

    @property
    def headers(self) -> dict[str, str] | None:
        """Every third message has some; they tell its value, so that no other's fit it."""
        return {"of": self.value} if fnv1a(self.value) % 3 == 0 else None

    @property
    def size_bytes(self) -> int:
        return len(self.key.encode()) + len(self.value.encode())

    def message(self) -> Message:
        """As it is sent."""
        tenant, _, key = self.identity or ("", "", "")
        rerouted = self.topic != self.requested_topic
        envelope = Envelope(
            tenant_id=tenant or None,
            idempotency_key=key or None,
            target_topic=self.topic if rerouted else None,
            partition_override=self.override,
            deadline=PAST if self.expired else None,
        )
        return Message(
            topic=self.requested_topic,
            value=self.value,
            key=self.key,
            envelope=None if envelope == Envelope() else envelope,
            headers=self.headers,
        )

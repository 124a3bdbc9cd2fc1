"""Commands: the requests that the machine decides."""

import msgspec

from driftq.core.records import DeliveryTerms


class Produce(msgspec.Struct, gc=False):
    """One message, encoded and ready to be stored.

    Plain ones only need space: they have none of the fields after `entry`.
    """

    topic: str
    """Where it goes: the target if one was given, else the requested topic."""
    requested_topic: str
    key: str
    value: str
    size_bytes: int
    """Key and value in UTF-8, which is what limits count."""
    entry: bytes
    """The stored form: checksum, time, JSON text."""
    plain: bool = True
    override: int | None = None
    deadline: int | None = None
    flags: int = 0
    terms: DeliveryTerms | None = None
    idempotency_key: str = ""
    tenant_id: str = ""
    fingerprint: int = 0
    deliver_at: int | None = None


class AppendByPosition(msgspec.Struct, gc=False):
    """Messages of one writer's lane: stored together, those that are new."""

    topic: str
    writer: str
    lane: int
    epoch: int
    positions: list[int]
    messages: list[Produce]
    after: int | None = None
    """The position that the writer knows to be stored: if the lane is behind it, messages were lost."""


class Ack(msgspec.Struct, gc=False):
    """Ack one delivery. Without an attempt only the owner is checked."""

    owner: str
    partition: int
    offset: int
    attempt: int | None = None


class Nack(msgspec.Struct, gc=False):
    """One delivery failed, or, where `started` is False, no handler began it."""

    owner: str
    partition: int
    offset: int
    reason: str = ""
    attempt: int | None = None
    retryable: bool = True
    started: bool = True


class Extend(msgspec.Struct, gc=False):
    """Extend the lease of one delivery to `lease_ms` from now."""

    owner: str
    partition: int
    offset: int
    lease_ms: int
    attempt: int | None = None


class Capacity(msgspec.Struct, gc=False):
    """A consumer's credit in messages; `member` is its index among those of the call."""

    member: int
    owner: str
    lease_ms: int
    room: int
    stalled: bool = False
    """Its owner gives no sign of life: redeliveries go to the others first."""

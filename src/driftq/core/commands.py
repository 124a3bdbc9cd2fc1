"""What the outside asks of the machine."""

import msgspec

from driftq.core.records import DeliveryTerms


class Produce(msgspec.Struct, gc=False):
    """One message, encoded and ready to be stored.

    Plain ones need nothing but room: they have none of the fields behind `entry`.
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


class AppendByPosition(msgspec.Struct, gc=False):
    """Messages of one writer's lane: stored together, those that are new."""

    topic: str
    writer: str
    lane: int
    epoch: int
    positions: list[int]
    messages: list[Produce]
    after: int | None = None
    """What the writer knows to be stored: where the lane has less, something was lost."""


class Ack(msgspec.Struct, gc=False):
    """Done with one delivery. Without an attempt the owner alone is checked."""

    owner: str
    partition: int
    offset: int
    attempt: int | None = None


class Nack(msgspec.Struct, gc=False):
    """One delivery failed, or, where `started` is False, nobody began to handle it."""

    owner: str
    partition: int
    offset: int
    reason: str = ""
    attempt: int | None = None
    retryable: bool = True
    started: bool = True


class Extend(msgspec.Struct, gc=False):
    """Hold one delivery for so long from now."""

    owner: str
    partition: int
    offset: int
    lease_ms: int
    attempt: int | None = None


class Capacity(msgspec.Struct, gc=False):
    """A consumer with room for so many messages; `member` is its number among those of the call."""

    member: int
    owner: str
    lease_ms: int
    room: int
    stalled: bool = False
    """Its owner gives no sign of life: what was delivered before goes to the others first."""

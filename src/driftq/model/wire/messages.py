"""Messages on their way to readers: the stream, settling its deliveries, stored messages without a group."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from driftq.model.envelope import Envelope
from driftq.model.message import Routing
from driftq.model.value import StoredValue
from driftq.model.wire.fields import (
    KEY_MAX,
    OR_ERROR,
    Int64,
    LeaseMs,
    Name,
    Natural,
    Positive,
    Reason,
    Request,
    TopicName,
)

SEARCH_MAX = 1_000


class ConsumeBody(Request, frozen=True):
    """Which consumer reads what."""

    topic: TopicName
    group: Name
    owner: Name
    lease_ms: LeaseMs | None = None
    prefetch: Positive | None = None
    release_on_close: bool | None = None
    start: Literal["earliest", "latest"] | None = None


class DeliveryLine(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A line of the consume stream."""

    partition: int
    offset: int
    attempts: int
    value: str
    key: str = ""
    last_error: str = ""
    routing: Routing | None = None
    envelope: Envelope | None = None
    requested_topic: str | None = None
    tries: int | None = None
    """Deliveries that count towards the retry policy, with this one; absent where it equals `attempts`."""
    headers: dict[str, str] | None = None


class RecordsQuery(Request, frozen=True):
    """Which stored messages: `from` inclusive, `to` exclusive."""

    partition: Int64 | None = None
    from_: Natural | None = field(default=None, name="from")
    to: Natural | None = None
    limit: Positive | None = None


class RecordedMessage(StoredValue, frozen=True, gc=False, omit_defaults=True):
    """A stored message, read without a group."""

    partition: int
    offset: int
    timestamp: str
    value: str
    key: str = field(default_factory=str)
    envelope: Envelope | None = None
    routing: Routing | None = None
    requested_topic: str | None = None
    headers: dict[str, str] | None = None


class MessagesQuery(Request, frozen=True):
    """Which stored messages: all conditions together. `since` is inclusive, `until` exclusive, RFC 3339."""

    key: Annotated[str, Meta(max_length=KEY_MAX)] | None = None
    run_id: str | None = None
    tenant_id: str | None = None
    since: str | None = None
    until: str | None = None
    offset: Natural | None = None
    partition: Int64 | None = None
    order: Literal["oldest", "newest"] | None = None
    limit: Annotated[int, Meta(ge=1, le=SEARCH_MAX)] | None = None
    after: Natural | None = None
    """The `next` of the page before."""


class MessagesReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page of messages by offset. It may be shorter than `limit`, or empty, and still have a `next`."""

    messages: list[RecordedMessage]
    next: int | None = None
    """The `after` of the next page; absent at the end."""


class DeliveryBody(Request, frozen=True):
    """A delivery and its owner."""

    topic: TopicName
    group: Name
    partition: Int64
    offset: Int64
    owner: Name


class AckBody(DeliveryBody, frozen=True):
    """Acks one delivery."""

    attempt: Int64 | None = None


class NackBody(DeliveryBody, frozen=True):
    """One delivery failed; with `started` false no handler began it.

    Then it is due again at once and does not count towards max_attempts; a reason or `retryable` false would
    contradict that and is refused.
    """

    reason: Reason | None = None
    attempt: Int64 | None = None
    retryable: bool | None = None
    started: bool | None = None


class ExtendBody(DeliveryBody, frozen=True):
    """Extends the lease of one delivery to `lease_ms` from now."""

    lease_ms: LeaseMs
    attempt: Int64 | None = None


class AckPart(Request, frozen=True, omit_defaults=True):
    """One acked delivery."""

    partition: Int64
    offset: Int64
    attempt: Int64 | None = None


class AckBatchBody(Request, frozen=True):
    """Acks many deliveries of one owner."""

    topic: TopicName
    group: Name
    owner: Name
    acks: list[AckPart]


class AckBatchParts(Request, frozen=True):
    """The same with each ack undecoded."""

    topic: TopicName
    group: Name
    owner: Name
    acks: list[msgspec.Raw]


class AckedDelivery(msgspec.Struct, frozen=True, gc=False):
    status: Literal["acked"]


class AckBatchReply(msgspec.Struct, frozen=True):
    """One result for each ack, in order."""

    results: Annotated[list[AckedDelivery], OR_ERROR]

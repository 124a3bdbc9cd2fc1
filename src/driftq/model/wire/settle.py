"""Settling deliveries: ack, nack, lease extension, and many acks in one request."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from driftq.model.wire.fields import OR_ERROR, Int64, LeaseMs, Name, Reason, Request, TopicName


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

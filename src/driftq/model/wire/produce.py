"""Producing: one message, a batch, and where they are stored.

The server reads these with one decoder and writes the replies of produce and batch by hand: they are its
hottest paths. The types say what it reads and writes there.
"""

from __future__ import annotations

from itertools import count, repeat
from typing import Annotated, ClassVar

import msgspec
from msgspec import field

from driftq.model.envelope import Envelope, EnvelopeBody
from driftq.model.reply import Reply
from driftq.model.wire.fields import OR_ERROR, Int64, Request, TopicName


class ProduceBody(Request, frozen=True):
    """One message, in the broker's own form: it is not copied."""

    topic: TopicName
    value: str
    key: str = ""
    envelope: EnvelopeBody | None = None
    headers: dict[str, str] | None = None
    routing: ClassVar[None] = None


class InProcessBody(ProduceBody, frozen=True):
    """The same from within the process, where `labels` and `dlq` are allowed."""

    envelope: Envelope | None = None
    headers: dict[str, str] | None = None


class NullableProduceBody(Request, frozen=True):
    """The same with a key that is null, which a few clients send."""

    topic: TopicName
    value: str
    key: str | None = None
    envelope: EnvelopeBody | None = None
    headers: dict[str, str] | None = None


class ProduceQuery(Request, frozen=True):
    """One message, its envelope flattened."""

    topic: TopicName
    value: str
    key: str | None = None
    run_id: str | None = None
    step_id: str | None = None
    parent_step_id: str | None = None
    tenant_id: str | None = None
    tenant: str | None = None
    idempotency_key: str | None = None
    idem_key: str | None = None
    target_topic: str | None = None
    partition_override: Int64 | None = None
    deadline: str | None = None
    deliver_at: str | None = None
    retry_max_attempts: Int64 | None = None
    retry_backoff_ms: Int64 | None = None
    retry_max_backoff_ms: Int64 | None = None
    traceparent: str | None = None


class BatchQuery(Request, frozen=True):
    atomic: bool | None = None
    brief: bool | None = None


class BatchBody(Request, frozen=True):
    """Messages that share one durable write."""

    messages: list[ProduceBody]
    atomic: bool | None = None


class BatchParts(Request, frozen=True):
    """The same with each message undecoded."""

    messages: list[msgspec.Raw]
    atomic: bool | None = None


class Receipt(Reply, frozen=True, gc=False, omit_defaults=True, tag_field="status", tag="produced"):
    """Where a message is stored, or was stored before when it is a duplicate."""

    topic: str
    partition: int
    offset: int
    duplicate: bool = field(default_factory=bool)
    payload_mismatch: bool = False


class BatchReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """One result for each message, in order; or in brief, if all are new and of one topic, common fields.

    Their offsets follow each other.
    """

    produced: int
    failed: int
    results: Annotated[list[Receipt], OR_ERROR] | None = None
    topic: str | None = None
    first_offset: int | None = None
    partition: int | None = None
    """Of all of them; left out where they differ."""
    partitions: list[int] | None = None
    """Of each, in order."""

    def receipts(self) -> list[Receipt]:
        """One for each message, in order."""
        if self.results is not None:
            return self.results
        partitions = self.partitions or repeat(self.partition or 0, self.produced)
        offsets = count(self.first_offset or 0)
        return list(map(Receipt, repeat(self.topic or ""), partitions, offsets, repeat(False)))

"""What requests may say: the types that check them, and that the OpenAPI document is made from.

Optional fields may be null. Whatever is not named here is refused.
"""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta, field

from driftq.model import Envelope
from driftq.model.options.limits import LEASE_MS_MAX

NAME_MAX = 255
REASON_MAX = 65_536

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Natural = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
LeaseMs = Annotated[int, Meta(ge=1, le=LEASE_MS_MAX)]
Lane = Annotated[int, Meta(ge=0, le=65_535)]
TopicName = Annotated[str, Meta(min_length=1)]
Name = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
Reason = Annotated[str, Meta(max_length=REASON_MAX)]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A request without parameters."""


class PageQuery(Request, frozen=True):
    """Which part of a list."""

    limit: Positive | None = None
    after: str | None = None


class TopicBody(Request, frozen=True):
    """A topic to be created."""

    name: str
    partitions: Int64 | None = None
    retention_ms: Int64 | None = None
    retention_bytes: Int64 | None = None
    table: bool | None = None


class RetryPolicyBody(Request, frozen=True):
    """How often and how far apart a message is delivered again."""

    max_attempts: Int64 | None = None
    backoff_ms: Int64 | None = None
    max_backoff_ms: Int64 | None = None


class EnvelopeBody(Request, frozen=True, omit_defaults=True):
    """What travels with a message; `labels` and `dlq` are not for clients.

    It is written as the model's envelope is, so that one without a retry policy can stand in for it.
    """

    run_id: str | None = None
    step_id: str | None = None
    parent_step_id: str | None = None
    tenant_id: str | None = None
    idempotency_key: str | None = None
    target_topic: str | None = None
    partition_override: Int64 | None = None
    deadline: str | None = None
    retry_policy: RetryPolicyBody | None = None
    traceparent: str | None = None


class ProduceBody(Request, frozen=True):
    """One message. Without an envelope it has the shape that the broker takes, and is not copied."""

    topic: TopicName
    value: str
    key: str = ""
    envelope: EnvelopeBody | None = None
    routing: ClassVar[None] = None


class NullableProduceBody(Request, frozen=True):
    """The same with a key that is null, which a few clients send."""

    topic: TopicName
    value: str
    key: str | None = None
    envelope: EnvelopeBody | None = None


class InProcessBody(Request, frozen=True):
    """The same from within the process, where `labels` and `dlq` are allowed."""

    topic: TopicName
    value: str
    key: str = ""
    envelope: Envelope | None = None
    routing: ClassVar[None] = None


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
    retry_max_attempts: Int64 | None = None
    retry_backoff_ms: Int64 | None = None
    retry_max_backoff_ms: Int64 | None = None
    traceparent: str | None = None


class BatchBody(Request, frozen=True):
    """Messages that share one durable write."""

    messages: list[ProduceBody]
    atomic: bool | None = None


class BatchParts(Request, frozen=True):
    """The same with each message left as it came."""

    messages: list[msgspec.Raw]
    atomic: bool | None = None


class BatchQuery(Request, frozen=True):
    atomic: bool | None = None
    brief: bool | None = None


class AppendMessage(Request, frozen=True):
    """A message with its place in the lane."""

    position: Natural
    value: str
    key: str = ""
    envelope: EnvelopeBody | None = None


class AppendBody(Request, frozen=True):
    """Messages of one writer's lane, their positions rising."""

    writer: Name
    lane: Lane
    epoch: Natural
    messages: list[AppendMessage]
    after: Natural | None = None


class WriterBody(Request, frozen=True):
    """A writer that begins: with the next epoch, or with this one where it keeps epochs of its own."""

    writer: Name
    epoch: Natural | None = None


class ConsumeBody(Request, frozen=True):
    """Who reads what."""

    topic: TopicName
    group: Name
    owner: Name
    lease_ms: LeaseMs | None = None
    prefetch: Positive | None = None
    release_on_close: bool | None = None
    start: Literal["earliest", "latest"] | None = None


class AckBody(Request, frozen=True):
    """Done with one delivery."""

    topic: TopicName
    group: Name
    partition: Int64
    offset: Int64
    owner: Name
    attempt: Int64 | None = None


class NackBody(Request, frozen=True):
    """One delivery failed; with `started` false nobody began to handle it.

    Then it is due again at once and does not count towards max_attempts; a reason or `retryable` false would
    contradict that and is refused.
    """

    topic: TopicName
    group: Name
    partition: Int64
    offset: Int64
    owner: Name
    reason: Reason | None = None
    attempt: Int64 | None = None
    retryable: bool | None = None
    started: bool | None = None


class AckPart(Request, frozen=True):
    partition: Int64
    offset: Int64
    attempt: Int64 | None = None


class AckBatchBody(Request, frozen=True):
    """Done with many deliveries of one owner."""

    topic: TopicName
    group: Name
    owner: Name
    acks: list[AckPart]


class AckBatchParts(Request, frozen=True):
    """The same with each ack left as it came."""

    topic: TopicName
    group: Name
    owner: Name
    acks: list[msgspec.Raw]


class ExtendBody(Request, frozen=True):
    """Hold one delivery for so long from now."""

    topic: TopicName
    group: Name
    partition: Int64
    offset: Int64
    owner: Name
    lease_ms: LeaseMs
    attempt: Int64 | None = None


class RecordsQuery(Request, frozen=True):
    """Which stored messages: `from` inclusive, `to` exclusive."""

    partition: Int64 | None = None
    from_: Natural | None = field(default=None, name="from")
    to: Natural | None = None
    limit: Positive | None = None


class SpanBody(Request, frozen=True):
    """Messages of one partition: `from` inclusive, `to` exclusive, at most `limit`, a cut at each `every`."""

    partition: Int64
    from_: Natural | None = field(default=None, name="from")
    to: Natural | None = None
    limit: Natural | None = None
    every: Positive | None = None


class SpansBody(Request, frozen=True):
    """Which spans; without any, every partition from end to end."""

    spans: list[SpanBody] | None = None


class ResetBody(Request, frozen=True):
    """Where a group goes on: `earliest`, `latest`, an offset, or an RFC 3339 time."""

    to: str | Natural


class ReaderBody(Request, frozen=True):
    """How far a reader is: the next offset it will read, by partition."""

    reader: Name
    offsets: dict[str, Natural] | None = None

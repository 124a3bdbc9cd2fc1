"""What answers say, as types: the OpenAPI document is made from them, the bytes themselves by hand."""

from typing import Literal

import msgspec

from driftq.model import Envelope, Routing


class ErrorReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Any refusal or failure. Errors with facts of their own have them as further fields."""

    error: str
    message: str
    reason: str | None = None
    retry_after_ms: int | None = None
    kind: str | None = None


class StatusReply(msgspec.Struct, frozen=True):
    status: str


class ClockWarning(msgspec.Struct, frozen=True):
    """The log is ahead of the machine's clock."""

    code: str
    message: str
    ahead_ms: int


class ReadyReply(msgspec.Struct, frozen=True, omit_defaults=True):
    status: str
    warnings: list[ClockWarning] = []


class VersionReply(msgspec.Struct, frozen=True):
    version: str
    commit: str
    wal_enabled: bool
    fsync: str


class TopicsReply(msgspec.Struct, frozen=True):
    topics: list[str]


class CreatedReply(msgspec.Struct, frozen=True):
    status: Literal["created"]
    name: str
    partitions: int


class ProducedReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a message is now, or was before when it is a duplicate."""

    status: Literal["produced"]
    topic: str
    partition: int
    offset: int
    duplicate: bool
    payload_mismatch: bool = False


class BatchResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one message: it has a status, or an error."""

    status: Literal["produced"] | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    duplicate: bool | None = None
    payload_mismatch: bool | None = None
    error: str | None = None
    message: str | None = None
    reason: str | None = None
    retry_after_ms: int | None = None


class BatchReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """One result a message, in order; in brief, where all are new and of one topic, what they have in common.

    Their offsets follow each other.
    """

    produced: int
    failed: int
    results: list[BatchResult] | None = None
    topic: str | None = None
    first_offset: int | None = None
    partition: int | None = None
    """Of all of them; left out where they differ."""
    partitions: list[int] | None = None
    """Of each, in order."""


class BatchRefusal(msgspec.Struct, frozen=True):
    """An atomic batch of which nothing was stored: its first error, and one for each message."""

    error: str
    message: str
    produced: int
    failed: int
    results: list[BatchResult]
    reason: str | None = None
    retry_after_ms: int | None = None


class AppendedReply(msgspec.Struct, frozen=True):
    """How many messages are new, how many were there before, and the lane's last position (-1: none)."""

    appended: int
    skipped: int
    position: int


class WriterReply(msgspec.Struct, frozen=True):
    """The epoch in force, and the last position of each lane that has one."""

    epoch: int
    lanes: dict[str, int]


class AckResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one ack: it has a status, or an error."""

    status: Literal["acked"] | None = None
    error: str | None = None
    message: str | None = None


class AckBatchReply(msgspec.Struct, frozen=True):
    """One result an ack, in order."""

    results: list[AckResult]


class SpanReply(msgspec.Struct, frozen=True, kw_only=True):
    """Messages between two offsets."""

    partition: int
    first_offset: int
    """Below it nothing of the partition is kept."""
    from_: int = msgspec.field(name="from")
    to: int
    """Behind the last message of the span."""
    messages: int
    behind: int
    """Messages from `from` to the end of the partition."""
    cuts: list[int]
    """Offsets at which a new piece begins."""


class SpansReply(msgspec.Struct, frozen=True):
    """The spans, in the order of the request."""

    instance: str
    """Changes with each start of the server; also in its folder, for those who can read there."""
    next_offset: int
    partitions: int
    table: bool
    spans: list[SpanReply]


class RecordLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stored message, one a line."""

    partition: int
    offset: int
    timestamp: str
    key: str
    value: str
    envelope: Envelope | None = None
    routing: Routing | None = None
    requested_topic: str | None = None

"""Topics: creating and showing them, their readers, and counting their messages."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from driftq.model.wire.fields import Int64, Name, Natural, Positive, Request


class TopicBody(Request, frozen=True):
    """A topic to be created."""

    name: str
    partitions: Int64 | None = None
    retention_ms: Int64 | None = None
    retention_bytes: Int64 | None = None
    table: bool | None = None
    tenant: str | None = None
    """Its owner."""


class CreatedReply(msgspec.Struct, frozen=True):
    status: Literal["created"]
    name: str
    partitions: int


class TopicsReply(msgspec.Struct, frozen=True):
    topics: list[str]


class PartitionView(msgspec.Struct, frozen=True):
    partition: int
    first_offset: int
    next_offset: int
    messages: int
    bytes: int


class GroupView(msgspec.Struct, frozen=True):
    group: str
    partition: int
    acked: int
    floor: int
    in_flight: int
    lag: int
    """Unsettled messages, those that are delayed included."""
    delayed: int = 0
    """Messages that wait for their `deliver_at`."""


class ReaderView(msgspec.Struct, frozen=True):
    reader: str
    partition: int
    next_offset: int
    lag: int


class WriterView(msgspec.Struct, frozen=True):
    """A writer that appends by position: its current epoch, and the last position of each lane."""

    writer: str
    epoch: int
    lanes: dict[str, int]


class StreamView(msgspec.Struct, frozen=True):
    """An open consume stream; one that is `stalled` gets one message at a time.

    Its owner let leases expire and gave no sign of life: no ack, no nack, no extension.
    """

    group: str
    owner: str
    in_flight: int
    stalled: bool


class TopicView(msgspec.Struct, frozen=True):
    name: str
    partitions: list[PartitionView]
    groups: list[GroupView]
    readers: list[ReaderView]
    writers: list[WriterView] = []
    start_offset: int = 0
    """Where the topic's offsets begin: 0, or after those of a deleted topic of its name."""
    streams: list[StreamView] = []
    id: str = ""
    """Names this topic and no other: a topic of the same name, created later or elsewhere, has another id."""
    tenant: str = ""
    """The tenant that owns it; empty: nobody."""


class ResetBody(Request, frozen=True):
    """Where a group continues: `earliest`, `latest`, an offset, or an RFC 3339 time."""

    to: str | Natural


class ReaderBody(Request, frozen=True):
    """A reader's progress: the next offset that it will read, by partition."""

    reader: Name
    offsets: dict[str, Natural] | None = None


class SpanBody(Request, frozen=True):
    """Messages of one partition: `from` inclusive, `to` exclusive, at most `limit`, a cut at each `every`."""

    partition: Int64
    from_: Natural | None = field(default=None, name="from")
    to: Natural | None = None
    limit: Natural | None = None
    every: Positive | None = None


class SpansBody(Request, frozen=True):
    """Which spans; without any, every partition from end to end.

    With `wait_ms` the reply waits until one of them has a message.
    """

    spans: list[SpanBody] | None = None
    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] | None = None


class SpanReply(msgspec.Struct, frozen=True, kw_only=True):
    """Messages between two offsets of a partition."""

    partition: int
    first_offset: int
    """Nothing of the partition is stored below it."""
    from_: int = field(name="from")
    to: int
    """After the last message of the span."""
    messages: int
    behind: int
    """Messages from `from` to the end of the partition."""
    cuts: list[int]
    """Offsets at which a new piece begins."""


class SpansReply(msgspec.Struct, frozen=True):
    """The spans, in the order of the request."""

    instance: str
    """Changes with each start of the server; a file in its data folder has it too."""
    next_offset: int
    partitions: int
    table: bool
    spans: list[SpanReply]

"""What can be seen of a topic from outside."""

import msgspec


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


class ReaderView(msgspec.Struct, frozen=True):
    reader: str
    partition: int
    next_offset: int
    lag: int


class WriterView(msgspec.Struct, frozen=True):
    """Who appends by position: the epoch in force, and the last position of each lane."""

    writer: str
    epoch: int
    lanes: dict[str, int]


class StreamView(msgspec.Struct, frozen=True):
    """An open consume stream; one that is `stalled` gets one message at a time.

    Its owner let leases lapse and gave no sign of life: no ack, no nack, no extension.
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
    """Where the topic's offsets begin: 0, or behind those of a deleted topic that had its name."""
    streams: list[StreamView] = []

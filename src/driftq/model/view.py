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


class TopicView(msgspec.Struct, frozen=True):
    name: str
    partitions: list[PartitionView]
    groups: list[GroupView]
    readers: list[ReaderView]
    writers: list[WriterView] = []

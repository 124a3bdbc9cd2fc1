"""Delayed messages: which of them wait for their instant, and which one is next.

A message with a `deliver_at` is stored at its place like any other. Until its instant it is *delayed*: groups
pass over it, and it is nowhere in a group's own state. `Delays` knows the delayed messages of one partition,
earliest first; `DelaySchedule` knows which partition is next, so that nothing ever searches them. When the
instant has come, one record ends the delay. A group that had passed over the message then has it in a
`DueQueue` until its first delivery; any other group meets it in the order of the partition.

The heaps are caches: what a trim or a deletion leaves behind in them is dropped when its turn comes.
"""

import heapq
from array import array
from collections.abc import Callable, Iterable, Iterator

ORDINAL_BITS = 44
_ORDINAL_MASK = (1 << ORDINAL_BITS) - 1


class Delays:
    """The delayed messages of one partition, by instant."""

    __slots__ = ("_heap", "count", "scheduled_at")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self.count = 0
        """How many messages are delayed."""
        self.scheduled_at: int | None = None
        """The instant at which the schedule has this partition; its other entries are outdated."""

    def add(self, ordinal: int, deliver_at: int) -> None:
        heapq.heappush(self._heap, deliver_at << ORDINAL_BITS | ordinal)
        self.count += 1

    def load(self, delayed: Iterable[tuple[int, int]]) -> None:
        """Ordinals with their instants, into an empty one."""
        self._heap = [deliver_at << ORDINAL_BITS | ordinal for ordinal, deliver_at in delayed]
        heapq.heapify(self._heap)
        self.count = len(self._heap)

    def first_at(self, is_delayed: Callable[[int], bool]) -> int | None:
        """The earliest instant of a message that is still delayed."""
        heap = self._heap
        while heap:
            if is_delayed(heap[0] & _ORDINAL_MASK):
                return heap[0] >> ORDINAL_BITS
            heapq.heappop(heap)
        return None

    def due(self, wall: int, is_delayed: Callable[[int], bool], *, limit: int) -> list[int]:
        """At most `limit` messages whose instant has come, earliest first. They leave when it is recorded."""
        found: list[int] = []
        heap = self._heap
        while heap and len(found) < limit and heap[0] >> ORDINAL_BITS <= wall:
            packed = heapq.heappop(heap)
            if is_delayed(packed & _ORDINAL_MASK):
                found.append(packed)
        for packed in found:
            heapq.heappush(heap, packed)
        return [packed & _ORDINAL_MASK for packed in found]


class DelaySchedule:
    """Which partitions have delayed messages, the one with the earliest instant first."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[tuple[int, int, int]] = []
        """Instant, topic and partition, as a heap. They may be outdated; empty: nothing is delayed."""

    def add(self, at: int, *, topic: int, partition: int) -> None:
        """The earliest instant of this partition is `at`."""
        heapq.heappush(self.entries, (at, topic, partition))

    def first(self) -> tuple[int, int, int] | None:
        """The entry that is next."""
        return self.entries[0] if self.entries else None

    def pop(self) -> None:
        heapq.heappop(self.entries)


class DueQueue:
    """Messages whose delay ended after a group had passed over them, in the order in which they came due.

    Eight bytes a message. Those that were delivered or dropped stay until they are the first.
    """

    __slots__ = ("_begin", "_ordinals")

    def __init__(self, ordinals: bytes = b"") -> None:
        self._ordinals = array("Q")
        self._ordinals.frombytes(ordinals)
        self._begin = 0

    def __bool__(self) -> bool:
        return self._begin < len(self._ordinals)

    def __iter__(self) -> Iterator[int]:
        ordinals = self._ordinals
        for slot in range(self._begin, len(ordinals)):
            yield ordinals[slot]

    def add(self, ordinal: int) -> None:
        self._ordinals.append(ordinal)

    def drop_while(self, is_over: Callable[[int], bool]) -> None:
        """Drop those at the front that this says are over."""
        ordinals, begin = self._ordinals, self._begin
        while begin < len(ordinals) and is_over(ordinals[begin]):
            begin += 1
        if begin * 2 > len(ordinals):
            del ordinals[:begin]
            begin = 0
        self._begin = begin

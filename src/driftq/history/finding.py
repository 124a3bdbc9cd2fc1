"""Finding stored messages of a topic: by index where the history has one, and a bounded read of the rest.

The offsets of a topic fall into three zones. The history indexes the middle one, up to the last sealed
segment. Before it lie messages that an older release has stored; after it lie the newest, which a thread
reads and compares, so that a message is found as soon as it is durable. What one call reads is bounded: it
may end early, and says where to go on.

A call works on the state of one turn: slices of the partitions, with their chunks as they were. The history
is opened after that, so whatever had left the segments by then is in it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from driftq.core.index import Chunk, PartitionIndex
from driftq.core.state import Topic
from driftq.history.file import history_end, read_history
from driftq.history.search import BY_KEY, BY_TENANT, indexed_from, search_fields, search_hash
from driftq.log.segment import KEPT
from driftq.storage.entry import produced_at
from driftq.storage.payloads import EntriesGone, Payloads

if TYPE_CHECKING:
    import sqlite3

READ_MESSAGES_MAX = 100_000
"""Messages that one call reads; then it ends, and says where to go on."""
READ_BYTES_MAX = 64 << 20
PAGE_BYTES_MAX = 4 << 20
_WINDOW = 2_048
_WINDOW_BYTES = 8 << 20
_BATCH = 256
CLOCK_SLACK_MS = 5_000
"""Times are nearly in the order of offsets: a message waits at most this long for its turn."""


class FoundMessage(NamedTuple):
    """A stored message and its place."""

    offset: int
    partition: int
    entry: bytes


class MessagePage(NamedTuple):
    """Messages by offset, and the offset after which to look for more; None at the end."""

    messages: list[FoundMessage]
    more_after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageFilter:
    """What a message must have; times in milliseconds, `since` inclusive and `until` exclusive."""

    key: str | None = None
    run_id: str | None = None
    tenant_id: str | None = None
    since: int | None = None
    until: int | None = None

    @property
    def is_indexed(self) -> bool:
        """Whether an index narrows the search: time alone is found without one."""
        return not (self.key is None and self.run_id is None and self.tenant_id is None)

    def accepts(self, entry: bytes) -> bool:
        if self.since is not None or self.until is not None:
            at = produced_at(entry)
            if (self.since is not None and at < self.since) or (self.until is not None and at >= self.until):
                return False
        if not self.is_indexed:
            return True
        found = search_fields(entry)
        return (
            self.key in (None, found.key)
            and self.run_id in (None, found.run_id)
            and self.tenant_id in (None, found.tenant_id)
        )


class PartitionSlice:
    """Messages of one partition from an ordinal up to another, as they were in one turn."""

    def __init__(self, number: int, index: PartitionIndex) -> None:
        """Runs in a turn."""
        self.number = number
        self.index = index
        self.chunks: list[Chunk] = list(index.chunks)
        self._first_offsets = [chunk.offsets[0] for chunk in self.chunks]
        self.start = index.first
        self.stop = index.end

    def ordinal_from(self, offset: int) -> int:
        """The ordinal of the first message of the slice at or above an offset; `stop` when there is none."""
        number = bisect_right(self._first_offsets, offset) - 1
        if number < 0:
            return self.start
        chunk = self.chunks[number]
        return min(self.stop, max(self.start, chunk.first + bisect_left(chunk.offsets, offset)))

    def offset_at(self, ordinal: int) -> int:
        chunk = self._chunk_at(ordinal)
        return chunk.offsets[ordinal - chunk.first]

    def bytes_between(self, first: int, last: int) -> int:
        """Bytes of the messages after the first of two ordinals, up to the last."""
        begin, end = self._chunk_at(first), self._chunk_at(last)
        return end.ends[last - end.first] - begin.ends[first - begin.first]

    def _chunk_at(self, ordinal: int) -> Chunk:
        return self.chunks[bisect_right(self.chunks, ordinal, key=_first_of) - 1]

    def tail_from(self, segment: int) -> int | None:
        """The offset of the first message that lies in a segment after this one; None when none does."""
        for chunk in self.chunks:
            if segment < chunk.segment < KEPT:
                return chunk.offsets[0]
        return None

    def narrow(self, start: int, stop: int) -> None:
        self.start, self.stop = max(self.start, start), min(self.stop, stop)


def _first_of(chunk: Chunk) -> int:
    return chunk.first


def slices_of(topic: Topic, partition: int | None) -> list[PartitionSlice]:
    """The slices of a topic, or of one of its partitions; runs in a turn."""
    numbers = range(len(topic.partitions)) if partition is None else (partition,)
    found = [PartitionSlice(number, topic.partitions[number].index) for number in numbers]
    return [part for part in found if part.start < part.stop]


@dataclass(slots=True)
class Search:
    """One call: finds messages of these slices, in a thread."""

    payloads: Payloads
    topic: int
    slices: list[PartitionSlice]
    wanted: MessageFilter
    limit: int
    newest_first: bool = False
    messages: list[FoundMessage] = field(default_factory=list)
    _read: int = 0
    _read_bytes: int = 0
    _page_bytes: int = 0

    def run(self, history: str | None, *, first: int, end: int) -> MessagePage:
        """Messages with offsets from `first` up to `end`, exclusive. Blocks. Raises LogCorrupt."""
        self._narrow_by_time()
        if not self.wanted.is_indexed:
            return self._page(self._scan(first, end))
        database = read_history(history)
        if database is None:
            return self._page(self._scan(first, end))
        with closing(database):
            return self._page(self._zones(database, first, end))

    def _page(self, reached: Iterator[int]) -> MessagePage:
        """Search until the page is full or enough was read; `reached` are the places to go on at."""
        for more_after in reached:
            if len(self.messages) >= self.limit:
                self.messages = self.messages[: self.limit]
                return MessagePage(self.messages, self.messages[-1].offset)
            if (
                self._read >= READ_MESSAGES_MAX
                or self._read_bytes >= READ_BYTES_MAX
                or self._page_bytes >= PAGE_BYTES_MAX
            ):
                return MessagePage(self.messages, more_after)
        return MessagePage(self.messages, None)

    # Zones

    def _zones(self, database: sqlite3.Connection, first: int, end: int) -> Iterator[int]:
        tails = [part.tail_from(history_end(database)) for part in self.slices]
        tail = min((at for at in tails if at is not None), default=end)
        covered = 0 if self.wanted.run_id is not None else indexed_from(database, self.topic)
        begin = tail if covered is None else min(covered, tail)
        zones: list[Callable[[], Iterator[int]]] = [
            lambda: self._scan(first, min(end, begin)),
            lambda: self._look_up(database, max(first, begin), min(end, tail)),
            lambda: self._scan(max(first, tail), end),
        ]
        for zone in reversed(zones) if self.newest_first else zones:
            yield from zone()

    def _look_up(self, database: sqlite3.Connection, first: int, end: int) -> Iterator[int]:
        """Messages that the index names."""
        if first >= end:
            return
        wanted = self.wanted
        given: tuple[str | int, int]
        if wanted.run_id is not None:
            source, given = "steps WHERE run_id = ? AND topic = ?", (wanted.run_id, self.topic)
        else:
            field, text = (BY_TENANT, wanted.tenant_id) if wanted.key is None else (BY_KEY, wanted.key)
            source = f"search WHERE topic = ? AND field = {field} AND hash = ?"
            given = (self.topic, search_hash(text or ""))
        order = "DESC" if self.newest_first else "ASC"
        rows = database.execute(
            f'SELECT "offset", "partition" FROM {source} AND "offset" >= ? AND "offset" < ?'
            f' ORDER BY "offset" {order}',
            (*given, first, end),
        )
        by_number = {part.number: part for part in self.slices}
        while batch := list(islice(rows, _BATCH)):
            for part in by_number.values():
                offsets = [offset for offset, number in batch if number == part.number]
                ordinals = [part.ordinal_from(offset) for offset in offsets]
                self._take(
                    part,
                    [
                        ordinal
                        for ordinal, offset in zip(ordinals, offsets, strict=True)
                        if ordinal < part.stop and part.offset_at(ordinal) == offset
                    ],
                )
            self._sort()
            self._read += len(batch)  # Also those in other partitions, and those that were dropped.
            yield batch[-1][0]

    # Reading

    def _scan(self, first: int, end: int) -> Iterator[int]:
        """All messages with these offsets, window by window."""
        size = _WINDOW if self.wanted.is_indexed else min(_WINDOW, max(64, self.limit))
        while (window := self._window(first, end, size)) is not None:
            low, high = window
            for part in self.slices:
                ordinals = range(part.ordinal_from(low), part.ordinal_from(high))
                while ordinals:
                    piece = self._piece(part, ordinals)
                    self._take(part, piece)
                    ordinals = range(piece.stop, ordinals.stop)
            self._sort()
            if self.newest_first:
                end = low
                yield low
            else:
                first = high
                yield high - 1

    def _window(self, first: int, end: int, size: int) -> tuple[int, int] | None:
        """The next offsets to read, where there are messages; None at the end."""
        if self.newest_first:
            lasts = [part.ordinal_from(end) - 1 for part in self.slices]
            highs = [
                part.offset_at(last) + 1
                for part, last in zip(self.slices, lasts, strict=True)
                if last >= part.ordinal_from(first)
            ]
            return (max(first, max(highs) - size), max(highs)) if highs else None
        starts = [part.ordinal_from(first) for part in self.slices]
        stops = [part.ordinal_from(end) for part in self.slices]
        lows = [
            part.offset_at(start)
            for part, start, stop in zip(self.slices, starts, stops, strict=True)
            if start < stop
        ]
        return (min(lows), min(end, min(lows) + size)) if lows else None

    @staticmethod
    def _piece(part: PartitionSlice, ordinals: range) -> range:
        """The first of these ordinals, as many as may be in memory at once."""
        start, count = ordinals.start, len(ordinals)
        while count > 1 and part.bytes_between(start, start + count - 1) > _WINDOW_BYTES:
            count //= 2
        return range(start, start + count)

    def _take(self, part: PartitionSlice, ordinals: Sequence[int]) -> None:
        """Read these messages, and keep those that are wanted."""
        kept, entries = _fetch(self.payloads, part.index, ordinals)
        self._read += len(entries)
        for ordinal, entry in zip(kept, entries, strict=True):
            self._read_bytes += len(entry)
            if self.wanted.accepts(entry):
                self._page_bytes += len(entry)
                self.messages.append(FoundMessage(part.offset_at(ordinal), part.number, entry))

    def _sort(self) -> None:
        self.messages.sort(reverse=self.newest_first)

    # Times

    def _narrow_by_time(self) -> None:
        """Times rise with ordinals, but for the slack: search by halves, and compare each message exactly."""
        since, until = self.wanted.since, self.wanted.until
        for part in self.slices:
            if since is not None:
                part.narrow(self._first_at(part, since - CLOCK_SLACK_MS), part.stop)
            if until is not None:
                part.narrow(part.start, self._first_at(part, until + CLOCK_SLACK_MS))
        self.slices = [part for part in self.slices if part.start < part.stop]

    def _first_at(self, part: PartitionSlice, at: int) -> int:
        low, high = part.start, part.stop
        while low < high:
            middle = (low + high) // 2
            kept, entries = _fetch(self.payloads, part.index, [middle])
            if not kept or produced_at(entries[0]) < at:  # What was dropped meanwhile is older than the rest.
                low = middle + 1
            else:
                high = middle
        return low


def _fetch(
    payloads: Payloads, index: PartitionIndex, ordinals: Sequence[int]
) -> tuple[Sequence[int], list[bytes]]:
    """The messages that are still there, and their stored forms. Blocks."""
    while True:
        first = index.first
        kept: Sequence[int] = [ordinal for ordinal in ordinals if ordinal >= first]
        if not kept:
            return kept, []
        try:
            return kept, payloads.read(index, kept)
        except EntriesGone:
            continue

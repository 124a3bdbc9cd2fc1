"""Where each kept message of a partition is, as arrays: 24 bytes a message and no object.

Chunks belong to one file each, so that dropping a file drops its chunk. A place packs position, flags and
length of the stored form into 64 bits. The newest chunk grows; older ones may be replaced by equal ones whose
arrays lie in a file, or that point into another file. Only the oldest messages are ever dropped.

One thread changes an index. Others may look up places meanwhile, because `chunks` is never changed in place
except by adding to its end.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeAlias

from driftq.core.delivery_terms import TermsTable

_MARKS = 64
_WIDTH_MS_MAX = 60_000

LENGTH_BITS = 28
LENGTH_MASK = (1 << LENGTH_BITS) - 1
FLAG_MASK = 0xF

FLAG_RETRY_POLICY = 1
FLAG_DEADLINE = 2
FLAG_ONE_GROUP = 4
FLAG_KEYED = 8


@dataclass(frozen=True, slots=True)
class EntryLocation:
    """Where the stored form of one message is."""

    segment: int
    position: int
    length: int
    flags: int


def pack_place(position: int, length: int, flags: int = 0) -> int:
    return position << 32 | flags << LENGTH_BITS | length


def pack_places(start: int, lengths: array[int], flags: bytes) -> array[int]:
    """The places of consecutive stored forms; an empty `flags` means none for each."""
    if len(lengths) == 1:
        return array("Q", (pack_place(start, lengths[0], flags[0] if flags else 0),))
    halves = array("I", bytes(8 * len(lengths)))  # The low half of each place is first in memory.
    halves[1::2] = array("I", list(accumulate(lengths[:-1], initial=start)))
    if flags:
        lengths = array(
            "I", [flag << LENGTH_BITS | length for flag, length in zip(flags, lengths, strict=True)]
        )
    halves[::2] = lengths
    return array("Q", halves.tobytes())


Numbers: TypeAlias = "array[int] | memoryview"
"""64-bit integers in our own memory, or in a memory-mapped file."""


class Chunk:
    """Messages of one partition in one file."""

    __slots__ = ("ends", "first", "offsets", "places", "segment")

    def __init__(
        self,
        *,
        segment: int,
        first: int,
        offsets: Numbers | None = None,
        places: Numbers | None = None,
        ends: Numbers | None = None,
    ) -> None:
        self.segment = segment
        self.first = first
        self.offsets = array("Q") if offsets is None else offsets
        self.places = array("Q") if places is None else places
        self.ends = array("Q") if ends is None else ends
        """Bytes of keys and values up to and including each message, since the partition began."""

    @property
    def end(self) -> int:
        return self.first + len(self.offsets)

    def find(self, offset: int) -> int | None:
        """The ordinal of an offset that is in this chunk, else None."""
        offsets = self.offsets
        slot = offset - offsets[0]
        if not (0 <= slot < len(offsets) and offsets[slot] == offset):  # Dense when one partition gets all.
            slot = bisect_left(offsets, offset)
            if slot == len(offsets) or offsets[slot] != offset:
                return None
        return self.first + slot


class PartitionIndex:
    """All stored messages of a partition, by ordinal."""

    __slots__ = (
        "_first_offsets",
        "bytes_before",
        "chunks",
        "end",
        "first",
        "first_offset",
        "specials",
        "total_bytes",
    )

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self._first_offsets: list[int] = []
        self.first = 0
        """Ordinal of the oldest kept message."""
        self.first_offset = 0
        """Below this offset nothing of the partition is kept."""
        self.end = 0
        """Ordinal after the newest."""
        self.total_bytes = 0
        """Bytes of keys and values ever stored."""
        self.bytes_before = 0
        """Of these, the bytes before `first`."""
        self.specials = TermsTable()

    def add_run(
        self,
        segment: int,
        *,
        offsets: Sequence[int],
        places: Iterable[int],
        sizes: Sequence[int],
        terms: Sequence[int] | None = None,
        deadlines: Sequence[int] | None = None,
        delays: Sequence[int] | None = None,
    ) -> None:
        """Add messages at the end."""
        if terms is not None or deadlines is not None or delays is not None:
            self.specials.add_run(self.end, terms, deadlines, delays)
        if self.chunks and self.chunks[-1].segment == segment:
            chunk = self.chunks[-1]
        else:
            chunk = Chunk(segment=segment, first=self.end)
            self._first_offsets.append(offsets[0])
            self.chunks.append(chunk)
        chunk.offsets.extend(offsets)  # type: ignore[union-attr]
        chunk.places.extend(places)  # type: ignore[union-attr]
        before = self.total_bytes
        if len(sizes) == 1:
            self.total_bytes = before + sizes[0]
            chunk.ends.append(self.total_bytes)  # type: ignore[union-attr]
        else:
            ends = list(accumulate(sizes, initial=before))
            self.total_bytes = ends[-1]
            chunk.ends.fromlist(ends[1:])  # type: ignore[union-attr]
        self.end += len(sizes)

    def attach(self, chunk: Chunk) -> None:
        """Replace the chunks that hold the same messages with a complete one."""
        if chunk.end <= self.first:
            return  # All of it was dropped meanwhile.
        before = [one for one in self.chunks if one.end <= chunk.first]
        after = [one for one in self.chunks if one.first >= chunk.end]
        self._put([*before, chunk, *after])

    def trim(self, first: int) -> None:
        """Drop every message below this ordinal."""
        if first <= self.first:
            return
        self.bytes_before = self.bytes_upto(first)
        self.first_offset = self.offset_at(first - 1) + 1
        self.first = first
        self.specials.trim(first)
        if self.chunks and self.chunks[0].end <= first:
            self._put([chunk for chunk in self.chunks if chunk.end > first])

    def _put(self, chunks: list[Chunk]) -> None:
        self._first_offsets = [chunk.offsets[0] for chunk in chunks]
        self.chunks = chunks

    def _chunk_at(self, ordinal: int) -> Chunk:
        chunks = self.chunks
        if ordinal >= chunks[-1].first:
            return chunks[-1]
        return chunks[bisect_right(chunks, ordinal, key=_first_of) - 1]

    def find(self, offset: int) -> int | None:
        """The ordinal of an offset in this partition, or None when no kept message has it."""
        number = bisect_right(self._first_offsets, offset) - 1
        if number < 0 or offset < self.first_offset:
            return None
        return self.chunks[number].find(offset)

    def ordinals_of(self, offsets: Sequence[int]) -> Sequence[int] | None:
        """The ordinal of each; None when one is not in the newest chunk, where most are."""
        if not self.chunks:
            return None
        chunk = self.chunks[-1]
        kept, first = chunk.offsets, chunk.first
        low, high = min(offsets), max(offsets)
        if low < kept[0] or high > kept[-1] or low < self.first_offset:
            return None
        if kept[-1] - kept[0] == len(kept) - 1:  # Dense, as when one partition gets all.
            shift = first - kept[0]
            return [offset + shift for offset in offsets] if shift else offsets
        start = bisect_left(kept, low)
        stop = bisect_left(kept, high, start) + 1
        if list(kept[start:stop]) == offsets:  # All of a stretch, in order.
            return range(first + start, first + stop)
        slots = [bisect_left(kept, offset, start, stop) for offset in offsets]
        if [kept[slot] for slot in slots] != offsets:
            return None
        return [first + slot for slot in slots]

    def dense_tail(self) -> tuple[int, int, int]:
        """First and last offset of the newest chunk and their distance to ordinals, if it has no holes."""
        if self.chunks:
            chunk = self.chunks[-1]
            first, last = chunk.offsets[0], chunk.offsets[-1]
            if last - first == len(chunk.offsets) - 1:
                return first, last, chunk.first - first
        return 0, -1, 0

    def first_ordinal_from(self, offset: int) -> int:
        """The ordinal of the oldest kept message at or above an offset; `end` when there is none."""
        number = bisect_right(self._first_offsets, offset) - 1
        if number < 0 or offset < self.first_offset:
            return self.first
        chunk = self.chunks[number]
        return chunk.first + bisect_left(chunk.offsets, offset)

    def offset_at(self, ordinal: int) -> int:
        chunk = self._chunk_at(ordinal)
        return chunk.offsets[ordinal - chunk.first]

    def place_at(self, ordinal: int) -> EntryLocation:
        chunk = self._chunk_at(ordinal)
        packed = chunk.places[ordinal - chunk.first]
        return EntryLocation(
            chunk.segment, packed >> 32, packed & LENGTH_MASK, (packed >> LENGTH_BITS) & FLAG_MASK
        )

    def bytes_upto(self, ordinal: int) -> int:
        """Bytes of all messages before this ordinal."""
        if ordinal <= self.first:
            return self.bytes_before
        chunk = self._chunk_at(ordinal - 1)
        return chunk.ends[ordinal - 1 - chunk.first]

    def runs(self, start: int, stop: int, step: int = 1) -> Iterable[tuple[Chunk, range]]:
        """The slots that hold these ordinals, chunk by chunk."""
        while start < stop:
            chunk = self._chunk_at(start)
            upto = min(stop, chunk.first + len(chunk.offsets))
            slots = range(start - chunk.first, upto - chunk.first, step)
            yield chunk, slots
            start += len(slots) * step


def _first_of(chunk: Chunk) -> int:
    return chunk.first


class TimeIndex:
    """Marks (latest time, next ordinal): every message below the ordinal was produced by that time.

    A mark covers the messages of a 64th of the retention, at most a minute. So a message expires at most that
    much too late, and never too early.
    """

    __slots__ = ("_began", "_ends", "_times")

    def __init__(self) -> None:
        self._times = array("Q")
        self._ends = array("Q")
        self._began = 0
        """When the newest mark began."""

    def note(self, at: int, end: int, *, retention_ms: int) -> None:
        """Messages up to `end` were produced by `at`."""
        if self._times and at - self._began < min(retention_ms // _MARKS, _WIDTH_MS_MAX):
            self._times[-1] = at
            self._ends[-1] = end
        else:
            self._began = at
            self._times.append(at)
            self._ends.append(end)

    def end_by(self, at: int) -> int:
        """The ordinal after the last message that is known to have been produced by `at`; 0 for none."""
        number = bisect_right(self._times, at)
        return self._ends[number - 1] if number else 0

    def first_after(self, at: int) -> int:
        """An ordinal at or below the first message produced after `at`, and not far below it."""
        return self.end_by(at)

    def forget_below(self, first: int) -> None:
        """Drop the marks that only cover messages below this ordinal."""
        number = bisect_right(self._ends, first)
        if number:
            del self._times[:number], self._ends[:number]

    def dump(self) -> tuple[bytes, bytes, int]:
        return self._times.tobytes(), self._ends.tobytes(), self._began

    def load(self, dumped: tuple[bytes, bytes, int]) -> None:
        times, ends, self._began = dumped
        self._times.frombytes(times)
        self._ends.frombytes(ends)

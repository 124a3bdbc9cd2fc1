"""Where each kept message of a partition is, as arrays: 24 bytes a message and no object.

Chunks belong to one segment of the log each, so that dropping a segment drops its chunk. A place packs
position, flags and length of the stored form into 64 bits.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

LENGTH_BITS = 28
LENGTH_MASK = (1 << LENGTH_BITS) - 1
FLAG_MASK = 0xF

FLAG_RETRY_POLICY = 1
FLAG_DEADLINE = 2
FLAG_ONE_GROUP = 4
FLAG_KEYED = 8


@dataclass(frozen=True, slots=True)
class Place:
    """Where the stored form of one message is."""

    segment: int
    position: int
    length: int
    flags: int


def pack_place(position: int, length: int, flags: int = 0) -> int:
    return position << 32 | flags << LENGTH_BITS | length


def _extended(
    numbers: "array[int] | None", typecode: str, added: Sequence[int] | None, *, before: int, count: int
) -> "array[int]":
    """The array with these numbers, or zeros, behind what was before."""
    if numbers is None:
        numbers = array(typecode, bytes(before * array(typecode).itemsize))
    numbers.extend(added if added is not None else [0] * count)
    return numbers


class Chunk:
    """The messages of one partition in one segment."""

    __slots__ = ("deadlines", "ends", "first", "offsets", "places", "segment", "terms")

    def __init__(self, *, segment: int, first: int) -> None:
        self.segment = segment
        self.first = first
        self.offsets = array("Q")
        self.places = array("Q")
        self.ends = array("Q")
        """Bytes of keys and values up to and with each message, since the partition began."""
        self.terms: array[int] | None = None
        """Number of each message's terms, once one of them has any."""
        self.deadlines: array[int] | None = None
        """Deadline of each message, 0 for none, once one of them has any."""

    def add_special(self, count: int, terms: Sequence[int] | None, deadlines: Sequence[int] | None) -> None:
        """Note what is out of the ordinary in the last so many messages."""
        if terms is not None or self.terms is not None:
            self.terms = _extended(self.terms, "I", terms, before=len(self.offsets) - count, count=count)
        if deadlines is not None or self.deadlines is not None:
            self.deadlines = _extended(
                self.deadlines, "Q", deadlines, before=len(self.offsets) - count, count=count
            )

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
    """All kept messages of a partition, by ordinal."""

    __slots__ = (
        "_first_offsets",
        "_firsts",
        "bytes_before",
        "chunks",
        "end",
        "first",
        "special",
        "total_bytes",
    )

    def __init__(self) -> None:
        self.chunks: list[Chunk] = []
        self._firsts: list[int] = []
        self._first_offsets: list[int] = []
        self.first = 0
        """Ordinal of the oldest kept message."""
        self.end = 0
        """Ordinal behind the newest."""
        self.total_bytes = 0
        """Bytes of keys and values ever stored."""
        self.bytes_before = 0
        """As much of them as lies before `first`."""
        self.special = False
        """Whether any message ever had terms or a deadline."""

    def add_run(
        self,
        segment: int,
        *,
        offsets: Sequence[int],
        places: Iterable[int],
        sizes: Sequence[int],
        terms: Sequence[int] | None = None,
        deadlines: Sequence[int] | None = None,
    ) -> None:
        """Add messages at the end."""
        if self.chunks and self.chunks[-1].segment == segment:
            chunk = self.chunks[-1]
        else:
            chunk = Chunk(segment=segment, first=self.end)
            self.chunks.append(chunk)
            self._firsts.append(self.end)
            self._first_offsets.append(offsets[0])
        chunk.offsets.extend(offsets)
        chunk.places.extend(places)
        before = self.total_bytes
        if len(sizes) == 1:
            self.total_bytes = before + sizes[0]
            chunk.ends.append(self.total_bytes)
        else:
            ends = list(accumulate(sizes, initial=before))
            self.total_bytes = ends[-1]
            chunk.ends.extend(ends[1:])
        self.end += len(sizes)
        if terms is not None or deadlines is not None:
            self.special = True
        if self.special:
            chunk.add_special(len(sizes), terms, deadlines)

    def _chunk_at(self, ordinal: int) -> Chunk:
        chunk = self.chunks[-1]
        if ordinal >= chunk.first:
            return chunk
        return self.chunks[bisect_right(self._firsts, ordinal) - 1]

    def find(self, offset: int) -> int | None:
        """The ordinal of an offset in this partition, or None when no kept message has it."""
        number = bisect_right(self._first_offsets, offset) - 1
        return self.chunks[number].find(offset) if number >= 0 else None

    def dense_tail(self) -> tuple[int, int, int]:
        """First and last offset of the newest chunk and what makes an ordinal of them, if it has no holes."""
        if self.chunks:
            chunk = self.chunks[-1]
            first, last = chunk.offsets[0], chunk.offsets[-1]
            if last - first == len(chunk.offsets) - 1:
                return first, last, chunk.first - first
        return 0, -1, 0

    def first_ordinal_from(self, offset: int) -> int:
        """The ordinal of the oldest kept message at or above an offset; `end` when there is none."""
        number = bisect_right(self._first_offsets, offset) - 1
        if number < 0:
            return self.first
        chunk = self.chunks[number]
        return chunk.first + bisect_left(chunk.offsets, offset)

    def offset_at(self, ordinal: int) -> int:
        chunk = self._chunk_at(ordinal)
        return chunk.offsets[ordinal - chunk.first]

    def place_at(self, ordinal: int) -> Place:
        chunk = self._chunk_at(ordinal)
        packed = chunk.places[ordinal - chunk.first]
        return Place(chunk.segment, packed >> 32, packed & LENGTH_MASK, (packed >> LENGTH_BITS) & FLAG_MASK)

    def terms_at(self, ordinal: int) -> int:
        """Number of the message's terms; 0 is ordinary."""
        if not self.special:
            return 0
        chunk = self._chunk_at(ordinal)
        return chunk.terms[ordinal - chunk.first] if chunk.terms is not None else 0

    def deadline_at(self, ordinal: int) -> int:
        """The message's deadline; 0 is none."""
        if not self.special:
            return 0
        chunk = self._chunk_at(ordinal)
        return chunk.deadlines[ordinal - chunk.first] if chunk.deadlines is not None else 0

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

"""The messages' bytes: the newest from memory, others from the page cache, the rest through a reader thread.

Bytes from a file are checked against their checksum before use. Compaction may move a message to another
file, or retention may drop it, just before a read; the reader then looks it up once more.
"""

from bisect import bisect_right
from collections.abc import Sequence

from driftq.core.index import LENGTH_MASK, PartitionIndex
from driftq.log.log import Log
from driftq.storage.entry import is_intact

CACHE_BYTES = 16 << 20
_GAP_BYTES = 4_096
_READ_BYTES = 1 << 20


class EntriesGone(Exception):
    """Some of these messages were dropped: their retention has expired, or the topic is deleted."""


class Payloads:
    """Reads stored forms by ordinal."""

    def __init__(self, log: Log, *, cache_bytes: int = CACHE_BYTES) -> None:
        self._log = log
        self._cache_bytes = cache_bytes
        self._starts: list[int] = []
        self._blobs: list[bytes] = []
        self._cached = 0

    def remember(self, segment: int, position: int, blob: bytes) -> None:
        """Cache the newest bytes of the log. Positions only grow."""
        self._starts.append(segment << 32 | position)
        self._blobs.append(blob)
        self._cached += len(blob)
        if self._cached > self._cache_bytes:
            self._trim()

    def forget(self) -> None:
        """The log was cut back: its positions will be used again."""
        self._starts.clear()
        self._blobs.clear()
        self._cached = 0

    def _trim(self) -> None:
        drop = 0
        while self._cached > self._cache_bytes // 2 and drop < len(self._blobs) - 1:
            self._cached -= len(self._blobs[drop])
            drop += 1
        del self._starts[:drop], self._blobs[:drop]

    def fetch(self, index: PartitionIndex, ordinals: Sequence[int]) -> list[bytes] | None:
        """The stored forms of these messages, in order; None when that would block. Or MessagesGone."""
        entries: list[bytes] = []
        locations = _stored_locations(index, ordinals)
        slot = 0
        while slot < len(locations):
            taken = self._from_cache(locations, slot, entries) or self._from_file(
                locations, slot, entries, may_block=False
            )
            if not taken:
                return None
            slot += taken
        return entries

    def read(self, index: PartitionIndex, ordinals: Sequence[int]) -> list[bytes]:
        """The same from the files alone; blocks, so it needs a thread of its own."""
        locations = _stored_locations(index, ordinals)
        while True:
            entries: list[bytes] = []
            try:
                while len(entries) < len(locations):
                    self._from_file(locations, len(entries), entries, may_block=True)
                return entries
            except FileNotFoundError:
                before, locations = locations, _stored_locations(index, ordinals)
                if locations == before:
                    segment, position = (
                        locations[len(entries)][0] >> 32,
                        locations[len(entries)][0] & 0xFFFFFFFF,
                    )
                    raise self._log.damage(segment, position, "the file is missing") from None

    def _from_cache(self, locations: list[tuple[int, int]], slot: int, entries: list[bytes]) -> int:
        """Take as many as one cached blob holds; how many that was."""
        if not self._starts:
            return 0
        number = bisect_right(self._starts, locations[slot][0]) - 1
        if number < 0:
            return 0
        start, blob = self._starts[number], self._blobs[number]
        end = start + len(blob)
        taken = 0
        for location, length in locations[slot:] if slot else locations:
            if not start <= location < end:
                break
            begin = location - start
            entries.append(blob[begin : begin + length])
            taken += 1
        return taken

    def _from_file(
        self, locations: list[tuple[int, int]], slot: int, entries: list[bytes], *, may_block: bool
    ) -> int:
        """Read neighbours with one call; how many, or 0 when it would block."""
        first, length = locations[slot]
        end = first + length
        stop = slot + 1
        while stop < len(locations):
            location, length = locations[stop]
            if location >> 32 != first >> 32 or not 0 <= location - end <= _GAP_BYTES:
                break
            if location + length - first > _READ_BYTES:
                break
            end = location + length
            stop += 1
        read = self._log.read if may_block else self._log.try_read
        segment, position = first >> 32, first & 0xFFFFFFFF
        try:
            octets = read(segment, position, end - first)
        except OSError:
            if may_block:
                raise
            return 0  # The reader thread will meet the same error, and can wait for the disk.
        if octets is None:
            return 0
        for location, length in locations[slot:stop]:
            begin = location - first
            entry = octets[begin : begin + length]
            if not is_intact(entry):
                raise self._log.damage(
                    segment, location & 0xFFFFFFFF, "a message does not match its checksum"
                )
            entries.append(entry)
        return stop - slot


def _stored_locations(index: PartitionIndex, ordinals: Sequence[int]) -> list[tuple[int, int]]:
    if min(ordinals[0], ordinals[-1]) < index.first:
        raise EntriesGone
    try:
        locations = _locations(index, ordinals)
    except IndexError:
        raise EntriesGone from None  # They were dropped during the lookup.
    if min(ordinals[0], ordinals[-1]) < index.first:
        raise EntriesGone
    return locations


def _locations(index: PartitionIndex, ordinals: Sequence[int]) -> list[tuple[int, int]]:
    """Segment and position in one number, and the length, of each message."""
    locations: list[tuple[int, int]] = []
    if isinstance(ordinals, range):
        for chunk, slots in index.runs(ordinals.start, ordinals.stop, ordinals.step):
            base = chunk.segment << 32
            packed = chunk.places[slots.start : slots.stop : slots.step]
            locations += [(base | location >> 32, location & LENGTH_MASK) for location in packed]
        return locations
    for ordinal in ordinals:
        location = index.place_at(ordinal)
        locations.append((location.segment << 32 | location.position, location.length))
    return locations

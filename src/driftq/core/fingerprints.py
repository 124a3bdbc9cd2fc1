"""A table from 64-bit fingerprints to 64-bit numbers, in arrays: no object per key, no long pause to grow.

Keys are spread over many small tables with linear probing, in which a number lies beside its fingerprint. A
small table grows alone, and each has a load of its own at which it does, so that they do not all grow at
once. Several numbers may be kept under one fingerprint. 0 is not a fingerprint.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping

_SHARD_BITS = 12
_SHARDS = 1 << _SHARD_BITS
_LAST = _SHARDS - 1
_SHIFT = _SHARD_BITS - 1
"""Slots are pairs, so a place in a table is twice the number that the bits above the shard's make."""
_SMALLEST = 4
_SMALL = 128
"""Slots up to which a table grows to four times its size: all of them together take little then."""
_EMPTY = array("Q", bytes(16))
"""A small table before its first key; it is never written to."""
RAW_FROM = 100_000
"""From this many keys on a snapshot holds the raw tables; fewer are inserted again one by one."""


class FingerprintTable:
    """Numbers by fingerprint; a multimap."""

    __slots__ = ("_room", "_tables", "count")

    def __init__(self) -> None:
        self._tables = [_EMPTY] * _SHARDS
        self._room = [0] * _SHARDS
        """How many more keys each small table takes before it grows."""
        self.count = 0

    def find(self, print_: int) -> list[int]:
        """The numbers under a fingerprint, in any order."""
        table = self._tables[print_ & _LAST]
        mask = len(table) - 2
        slot = print_ >> _SHIFT & mask
        found: list[int] = []
        while here := table[slot]:
            if here == print_:
                found.append(table[slot + 1])
            slot = slot + 2 & mask
        return found

    def has_any(self, prints: Iterable[int]) -> bool:
        """Whether one of these fingerprints is present; 0 never is."""
        tables, last, shift = self._tables, _LAST, _SHIFT
        for print_ in prints:
            table = tables[print_ & last]
            mask = len(table) - 2
            slot = print_ >> shift & mask
            while here := table[slot]:
                if here == print_:
                    return True
                slot = slot + 2 & mask
        return False

    def add(self, print_: int, value: int) -> None:
        self.add_all((print_,), (value,))

    def add_all(self, prints: Iterable[int], numbers: Iterable[int]) -> None:
        """Each number under its fingerprint."""
        tables, room, last, shift = self._tables, self._room, _LAST, _SHIFT
        added = 0
        for print_, number in zip(prints, numbers, strict=True):
            shard = print_ & last
            left = room[shard] or self._grow(shard)
            room[shard] = left - 1
            table = tables[shard]
            mask = len(table) - 2
            slot = print_ >> shift & mask
            while table[slot]:
                slot = slot + 2 & mask
            table[slot] = print_
            table[slot + 1] = number
            added += 1
        self.count += added

    def remove(self, print_: int, value: int) -> bool:
        """Remove one number under a fingerprint; False when it was not present."""
        shard = print_ & _LAST
        table = self._tables[shard]
        mask = len(table) - 2
        slot = print_ >> _SHIFT & mask
        while table[slot] != print_ or table[slot + 1] != value:
            if not table[slot]:
                return False
            slot = slot + 2 & mask
        _close_gap(table, slot)
        self._room[shard] += 1
        self.count -= 1
        return True

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for table in self._tables:
            if table is not _EMPTY:
                yield from _pairs(table)

    def dump(self, name: str) -> dict[str, bytes]:
        """The whole table as raw arrays under this name; nothing when it is quick to rebuild."""
        if self.count < RAW_FROM:
            return {}
        return {
            f"{name}.slots_sizes": array("Q", map(len, self._tables)).tobytes(),
            f"{name}.slots_room": array("Q", self._room).tobytes(),
            f"{name}.slots": b"".join(self._tables),
        }

    def load(self, parts: Mapping[str, memoryview], name: str) -> bool:
        """Load the result of `dump`; False when it is empty or has another number of tables."""
        sizes = parts.get(f"{name}.slots_sizes")
        if sizes is None or len(sizes) != 8 * _SHARDS:
            return False
        slots = parts[f"{name}.slots"]
        start = 0
        for shard, size in enumerate(sizes.cast("Q")):
            stop = start + 8 * size
            table = array("Q")
            table.frombytes(slots[start:stop])
            self._tables[shard] = table
            start = stop
        self._room = parts[f"{name}.slots_room"].cast("Q").tolist()
        self.count = sum(
            _limit(shard, len(table) // 2) - room
            for shard, (table, room) in enumerate(zip(self._tables, self._room, strict=True))
        )
        return True

    def _grow(self, shard: int) -> int:
        """Double the slots, or more; returns how many more keys fit now."""
        old = self._tables[shard]
        slots = len(old) // 2
        size = _SMALLEST if old is _EMPTY else slots * (4 if slots <= _SMALL else 2)
        table = array("Q", bytes(16 * size))
        mask = len(table) - 2
        used = 0
        for print_, value in _pairs(old):
            slot = print_ >> _SHIFT & mask
            while table[slot]:
                slot = slot + 2 & mask
            table[slot] = print_
            table[slot + 1] = value
            used += 1
        self._tables[shard] = table
        room = self._room[shard] = _limit(shard, size) - used
        return room


def _limit(shard: int, size: int) -> int:
    """How full a small table may be: from 60 % to 85 %, different in each shard."""
    return size * (60 + shard * 25 // _SHARDS) // 100


def _pairs(table: "array[int]") -> Iterator[tuple[int, int]]:
    for print_, value in zip(table[::2], table[1::2], strict=True):
        if print_:
            yield print_, value


def _close_gap(table: "array[int]", gap: int) -> None:
    """Move later entries of the same run forward, so that no search ends too early."""
    mask = len(table) - 2
    slot = gap + 2 & mask
    while table[slot]:
        home = table[slot] >> _SHIFT & mask
        if slot - home & mask >= slot - gap & mask:
            table[gap], table[gap + 1] = table[slot], table[slot + 1]
            gap = slot
        slot = slot + 2 & mask
    table[gap] = table[gap + 1] = 0

"""A table from 64-bit fingerprints to 64-bit numbers, in arrays: no object a key, no long pause to grow.

Keys are spread over many small tables with linear probing. A small table grows alone, and each has a load of
its own at which it does, so that they do not all grow at once. Several numbers may be kept under one
fingerprint. 0 is not a fingerprint.
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping

_SHARD_BITS = 10
_SHARDS = 1 << _SHARD_BITS
_SMALLEST = 8
_EMPTY = array("Q", bytes(8))
"""What a small table is before the first key; nobody writes to it."""
RAW_FROM = 100_000
"""So many keys are written as the tables they are in; fewer are put in again one by one."""


class FingerprintTable:
    """Numbers by fingerprint; a multimap."""

    __slots__ = ("_limits", "_prints", "_used", "_values", "count")

    def __init__(self) -> None:
        self._prints = [_EMPTY] * _SHARDS
        self._values = [_EMPTY] * _SHARDS
        self._used = array("L", bytes(8 * _SHARDS))
        self._limits = array("L", bytes(8 * _SHARDS))
        self.count = 0

    def find(self, print_: int) -> list[int]:
        """The numbers under a fingerprint, in no order."""
        prints = self._prints[print_ & (_SHARDS - 1)]
        mask = len(prints) - 1
        slot = (print_ >> _SHARD_BITS) & mask
        found: list[int] = []
        while True:
            here = prints[slot]
            if here == print_:
                found.append(self._values[print_ & (_SHARDS - 1)][slot])
            elif not here:
                return found
            slot = (slot + 1) & mask

    def has_any(self, prints: Iterable[int]) -> bool:
        """Whether one of these fingerprints is there; 0 never is."""
        tables = self._prints
        for print_ in prints:
            table = tables[print_ & (_SHARDS - 1)]
            mask = len(table) - 1
            slot = (print_ >> _SHARD_BITS) & mask
            while here := table[slot]:
                if here == print_:
                    return True
                slot = (slot + 1) & mask
        return False

    def add(self, print_: int, value: int) -> None:
        self.add_all((print_,), (value,))

    def add_all(self, prints: Iterable[int], numbers: Iterable[int]) -> None:
        """Each number under its fingerprint."""
        used, limits, tables, values = self._used, self._limits, self._prints, self._values
        for print_, number in zip(prints, numbers, strict=True):
            shard = print_ & (_SHARDS - 1)
            if used[shard] >= limits[shard]:
                self._grow(shard)
            table = tables[shard]
            mask = len(table) - 1
            slot = (print_ >> _SHARD_BITS) & mask
            while table[slot]:
                slot = (slot + 1) & mask
            table[slot] = print_
            values[shard][slot] = number
            used[shard] += 1
            self.count += 1

    def remove(self, print_: int, value: int) -> bool:
        """Forget one number under a fingerprint; False when it was not there."""
        shard = print_ & (_SHARDS - 1)
        prints, values = self._prints[shard], self._values[shard]
        mask = len(prints) - 1
        slot = (print_ >> _SHARD_BITS) & mask
        while prints[slot] != print_ or values[slot] != value:
            if not prints[slot]:
                return False
            slot = (slot + 1) & mask
        _close_gap(prints, values, slot)
        self._used[shard] -= 1
        self.count -= 1
        return True

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for prints, values in zip(self._prints, self._values, strict=True):
            if prints is _EMPTY:
                continue
            for print_, value in zip(prints, values, strict=True):
                if print_:
                    yield print_, value

    def dump(self, name: str) -> dict[str, bytes]:
        """Everything in it, as raw arrays under this name; nothing when it is quickly made again."""
        if self.count < RAW_FROM:
            return {}
        return {
            f"{name}.table_sizes": array("Q", [len(prints) for prints in self._prints]).tobytes(),
            f"{name}.table_used": self._used.tobytes(),
            f"{name}.table_prints": b"".join(prints.tobytes() for prints in self._prints),
            f"{name}.table_values": b"".join(values.tobytes() for values in self._values),
        }

    def load(self, parts: Mapping[str, memoryview], name: str) -> bool:
        """Take over what `dump` gave; False when it gave nothing."""
        if f"{name}.table_sizes" not in parts:
            return False
        prints, values = parts[f"{name}.table_prints"], parts[f"{name}.table_values"]
        start = 0
        for shard, size in enumerate(parts[f"{name}.table_sizes"].cast("Q")):
            stop = start + 8 * size
            self._prints[shard] = array("Q")
            self._prints[shard].frombytes(prints[start:stop])
            self._values[shard] = array("Q")
            self._values[shard].frombytes(values[start:stop])
            self._limits[shard] = _limit(shard, size)
            start = stop
        self._used = array("L")
        self._used.frombytes(parts[f"{name}.table_used"])
        self.count = sum(self._used)
        return True

    def _grow(self, shard: int) -> None:
        old_prints, old_values = self._prints[shard], self._values[shard]
        size = _SMALLEST if old_prints is _EMPTY else len(old_prints) * 2
        prints, values = array("Q", bytes(8 * size)), array("Q", bytes(8 * size))
        for print_, value in zip(old_prints, old_values, strict=True):
            if print_:
                _put(prints, values, print_, value)
        self._prints[shard], self._values[shard] = prints, values
        self._limits[shard] = _limit(shard, size)


def _limit(shard: int, size: int) -> int:
    """How full a small table may be: from 60 % to 85 %, another share in each shard."""
    return size * (60 + shard * 25 // _SHARDS) // 100


def _put(prints: "array[int]", values: "array[int]", print_: int, value: int) -> None:
    mask = len(prints) - 1
    slot = (print_ >> _SHARD_BITS) & mask
    while prints[slot]:
        slot = (slot + 1) & mask
    prints[slot] = print_
    values[slot] = value


def _close_gap(prints: "array[int]", values: "array[int]", gap: int) -> None:
    """Move later ones of the same run forward, so that no search ends too early."""
    mask = len(prints) - 1
    slot = (gap + 1) & mask
    while prints[slot]:
        home = (prints[slot] >> _SHARD_BITS) & mask
        if (slot - home) & mask >= (slot - gap) & mask:
            prints[gap], values[gap] = prints[slot], values[slot]
            gap = slot
        slot = (slot + 1) & mask
    prints[gap] = values[gap] = 0

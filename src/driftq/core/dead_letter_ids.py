"""The ids of handlers' dead letters that are stored, as 64-bit fingerprints that point at their messages.

A dead letter leaves only by a purge, so these do not expire. Fingerprints may collide, so a hit proves
nothing: the caller compares the stored message.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from driftq.core.fingerprints import FingerprintTable
from driftq.core.keys import MessageRef, fingerprint

_OFFSET_BITS = 40
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1
_SWEPT_TOGETHER = 500


def dead_letter_print(id: str) -> int:
    return fingerprint("dead letter", id)


def _cut(column: array[int], places: Sequence[int]) -> None:
    """Remove these places, which rise: everything behind them moves once, however many they are."""
    with memoryview(column) as numbers:
        end = places[0]
        for here, following in pairwise((*places, len(column))):
            size = following - here - 1
            numbers[end : end + size] = numbers[here + 1 : following]
            end += size
    del column[end:]


class _Prints:
    """Those of one topic, by offset."""

    __slots__ = ("offsets", "prints")

    def __init__(self) -> None:
        self.offsets: array[int] = array("Q")
        self.prints: array[int] = array("Q")


class DeadLetterIds:
    """The stored dead letters by fingerprint. About 40 bytes each."""

    def __init__(self) -> None:
        self._refs = FingerprintTable()
        self._topics: dict[int, _Prints] = {}
        self._leaving: list[tuple[int, _Prints]] = []
        """Of deleted topics, whose fingerprints are removed a few at a time."""

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        """Topic, offset and fingerprint of each."""
        for topic, own in sorted(self._topics.items()):
            for offset, print_ in zip(own.offsets, own.prints, strict=True):
                yield topic, offset, print_

    def find(self, print_: int, *, topic: int) -> list[MessageRef]:
        """The dead letters of this topic that may have the id of this fingerprint."""
        if topic not in self._topics:
            return []
        return [
            MessageRef(topic=topic, offset=packed & _OFFSET_MASK)
            for packed in self._refs.find(print_)
            if packed >> _OFFSET_BITS == topic
        ]

    def offsets(self, topic: int, *, after: int, limit: int) -> list[int]:
        """The next offsets of a topic's handlers' dead letters."""
        own = self._topics.get(topic)
        if own is None:
            return []
        start = bisect_right(own.offsets, after) if after >= 0 else 0
        return own.offsets[start : start + limit].tolist()

    def add_all(self, prints: Sequence[int], offsets: Sequence[int], *, topic: int) -> None:
        """The messages at these offsets, which are above all earlier ones of the topic."""
        own = self._topics.setdefault(topic, _Prints())
        own.offsets.extend(offsets)
        own.prints.extend(prints)
        self._refs.add_all(prints, [topic << _OFFSET_BITS | offset for offset in offsets])
        self._sweep()

    def remove(self, topic: int, offsets: Iterable[int]) -> None:
        """These were purged. Others than handlers' dead letters may be among them."""
        own = self._topics.get(topic)
        if own is None:
            return
        places: list[int] = []
        for offset in sorted(set(offsets)):
            at = bisect_left(own.offsets, offset)
            if at < len(own.offsets) and own.offsets[at] == offset:
                self._refs.remove(own.prints[at], topic << _OFFSET_BITS | offset)
                places.append(at)
        if places:
            _cut(own.offsets, places)
            _cut(own.prints, places)
        if not own.offsets:
            del self._topics[topic]
        self._sweep()

    def remove_topic(self, topic: int) -> None:
        """The dead-letter topic was deleted; its id is never used again, so nothing finds what is left."""
        own = self._topics.pop(topic, None)
        if own is not None:
            self._leaving.append((topic, own))
            self._sweep()

    def _sweep(self) -> None:
        """Remove some fingerprints of deleted topics."""
        left = _SWEPT_TOGETHER
        while self._leaving and left:
            topic, own = self._leaving[-1]
            some = min(left, len(own.offsets))
            for offset, print_ in zip(own.offsets[-some:], own.prints[-some:], strict=True):
                self._refs.remove(print_, topic << _OFFSET_BITS | offset)
            del own.offsets[-some:], own.prints[-some:]
            left -= some
            if not own.offsets:
                self._leaving.pop()

    def dump(self, name: str) -> dict[str, bytes]:
        """All of them as raw arrays under this name."""
        topics = sorted(self._topics)
        return {
            f"{name}.topics": array("Q", topics).tobytes(),
            f"{name}.sizes": array("Q", [len(self._topics[topic].offsets) for topic in topics]).tobytes(),
            f"{name}.offsets": b"".join(self._topics[topic].offsets.tobytes() for topic in topics),
            f"{name}.prints": b"".join(self._topics[topic].prints.tobytes() for topic in topics),
        }

    def load(self, parts: Mapping[str, memoryview], name: str) -> None:
        """Load the result of `dump`; a snapshot of an older version has none."""
        if f"{name}.topics" not in parts:
            return
        offsets, prints = parts[f"{name}.offsets"].cast("Q"), parts[f"{name}.prints"].cast("Q")
        start = 0
        sizes = parts[f"{name}.sizes"].cast("Q")
        for topic, size in zip(parts[f"{name}.topics"].cast("Q"), sizes, strict=True):
            stop = start + size
            self.add_all(prints[start:stop].tolist(), offsets[start:stop].tolist(), topic=topic)
            start = stop

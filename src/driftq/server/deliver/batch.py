"""Deliveries on their way out: what one consumer gets from one decision, and how it looks on the wire."""

from collections.abc import Sequence

import msgspec

from driftq.core.group import GroupPartition
from driftq.core.index import PartitionIndex
from driftq.core.lease import LeaseBlock
from driftq.storage.entry import BODY_AT

_encode = msgspec.json.Encoder().encode


class DeliveryBatch:
    """Messages of one partition for one consumer, with attempt and last error as they were decided."""

    __slots__ = ("again", "first_attempt", "index", "ordinals", "partition")

    def __init__(self, progress: GroupPartition, block: LeaseBlock, *, partition: int, again: bool) -> None:
        self.partition = partition
        self.index: PartitionIndex = progress.index
        self.ordinals: Sequence[int] = block.ordinals
        self.first_attempt = progress.attempt_base + 1
        self.again = (
            [
                (progress.attempt_of(one), progress.tries_of(one), progress.errors.get(one, ""))
                for one in block.ordinals
            ]
            if again
            else None
        )

    def is_behind(self) -> bool:
        """Whether something in it is no longer kept."""
        return min(self.ordinals[0], self.ordinals[-1]) < self.index.first

    def forget_dropped(self) -> bool:
        """Leave out what is no longer kept; whether anything is left."""
        first = self.index.first
        if self.ordinals[0] < first or self.ordinals[-1] < first:
            slots = [slot for slot, ordinal in enumerate(self.ordinals) if ordinal >= first]
            if self.again is not None:
                self.again = [self.again[slot] for slot in slots]
            self.ordinals = [self.ordinals[slot] for slot in slots]
        return bool(self.ordinals)

    def size_bytes(self) -> int:
        """Bytes of keys and values, counted over the whole stretch that the parcel spans."""
        first, last = self.ordinals[0], self.ordinals[-1]
        spanned = self.index.bytes_upto(last + 1) - self.index.bytes_upto(first)
        return spanned * len(self.ordinals) // (last + 1 - first)

    def lines(self, entries: list[bytes]) -> bytes:
        """NDJSON of these deliveries around the stored text."""
        head = b'{"partition":%d,"offset":' % self.partition
        offsets = self._offsets()
        if self.again is None:
            line = b'%%b%%d,%b"last_error":"",%%b\n' % _numbers(self.first_attempt, 1)
            return b"".join(
                [
                    line % (head, offset, entry[BODY_AT:])
                    for offset, entry in zip(offsets, entries, strict=True)
                ]
            )
        return b"".join(
            [
                b'%b%d,%b"last_error":%b,%b\n'
                % (head, offset, _numbers(attempt, tries), _encode(error), entry[BODY_AT:])
                for offset, entry, (attempt, tries, error) in zip(offsets, entries, self.again, strict=True)
            ]
        )

    def _offsets(self) -> list[int]:
        ordinals = self.ordinals
        if isinstance(ordinals, range):
            offsets: list[int] = []
            for chunk, slots in self.index.runs(ordinals.start, ordinals.stop, ordinals.step):
                offsets += chunk.offsets[slots.start : slots.stop : slots.step]
            return offsets
        return [self.index.offset_at(ordinal) for ordinal in ordinals]


def _numbers(attempt: int, tries: int) -> bytes:
    """The delivery's number, and how many of them the policy counts where that is another."""
    if attempt == tries:
        return b'"attempts":%d,' % attempt
    return b'"attempts":%d,"tries":%d,' % (attempt, tries)

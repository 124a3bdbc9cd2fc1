"""The deliveries queued for one consumer, in order: a cold read delays only this consumer's messages."""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from driftq.core.group import GroupPartition
from driftq.core.index import PartitionIndex
from driftq.core.lease import LeaseBlock
from driftq.errors import LogCorrupt
from driftq.server.ports import Background, ConsumerStream
from driftq.storage.entry import BODY_AT
from driftq.storage.payloads import EntriesGone, Payloads

_encode = msgspec.json.Encoder().encode


class DeliveryBatch:
    """Messages of one partition for one consumer, with the attempt and last error of each."""

    __slots__ = ("first_attempt", "index", "ordinals", "partition", "redelivered")

    def __init__(
        self, progress: GroupPartition, block: LeaseBlock, *, partition: int, redelivered: bool
    ) -> None:
        self.partition = partition
        self.index: PartitionIndex = progress.index
        self.ordinals: Sequence[int] = block.ordinals
        self.first_attempt = progress.attempt_base + 1
        self.redelivered = (
            [
                (progress.attempt_of(ordinal), progress.tries_of(ordinal), progress.errors.get(ordinal, ""))
                for ordinal in block.ordinals
            ]
            if redelivered
            else None
        )

    def is_behind(self) -> bool:
        """Whether any message of the batch is no longer stored."""
        return min(self.ordinals[0], self.ordinals[-1]) < self.index.first

    def forget_dropped(self) -> bool:
        """Drop messages that are no longer stored; returns whether any is left."""
        first = self.index.first
        if self.ordinals[0] < first or self.ordinals[-1] < first:
            slots = [slot for slot, ordinal in enumerate(self.ordinals) if ordinal >= first]
            if self.redelivered is not None:
                self.redelivered = [self.redelivered[slot] for slot in slots]
            self.ordinals = [self.ordinals[slot] for slot in slots]
        return bool(self.ordinals)

    def size_bytes(self) -> int:
        """Bytes of keys and values, counted over the whole range that the batch spans."""
        first, last = self.ordinals[0], self.ordinals[-1]
        spanned = self.index.bytes_upto(last + 1) - self.index.bytes_upto(first)
        return spanned * len(self.ordinals) // (last + 1 - first)

    def lines(self, entries: list[bytes]) -> bytes:
        """NDJSON of these deliveries around the stored text."""
        head = b'{"partition":%d,"offset":' % self.partition
        offsets = self._offsets()
        if self.redelivered is None:
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
                for offset, entry, (attempt, tries, error) in zip(
                    offsets, entries, self.redelivered, strict=True
                )
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


class Outbox:
    """Sends delivery batches as soon as their bytes are in memory."""

    def __init__(
        self,
        consumer: ConsumerStream,
        *,
        payloads: Payloads,
        background: Background,
        on_damage: Callable[[LogCorrupt], None],
    ) -> None:
        self._consumer = consumer
        self._payloads = payloads
        self._background = background
        self._on_damage = on_damage
        self._batches: deque[tuple[DeliveryBatch, int]] = deque()
        """Each with the bytes that it counts for."""
        self._fetching = False
        self._pending_bytes = 0
        self.closed = False

    def unsent_bytes(self) -> int:
        return self._pending_bytes + self._consumer.unsent_bytes()

    def put(self, batch: DeliveryBatch) -> None:
        """Send this after everything queued before."""
        self.queue(batch)
        self.flush()

    def queue(self, batch: DeliveryBatch) -> None:
        """Have this sent with the next flush."""
        if batch.forget_dropped():
            size_bytes = batch.size_bytes()
            self._batches.append((batch, size_bytes))
            self._pending_bytes += size_bytes

    def flush(self) -> None:
        """Send what is queued in one piece, up to the first batch that has to be read from the disk."""
        lines: list[bytes] = []
        cold: DeliveryBatch | None = None
        while self._batches and cold is None and not self._fetching and not self.closed:
            batch, _ = self._batches[0]
            if not batch.forget_dropped():
                self._take()
                continue
            try:
                entries = self._payloads.fetch(batch.index, batch.ordinals)
            except LogCorrupt as damage:
                self._on_damage(damage)
                break
            if entries is None:
                cold = batch
            else:
                lines.append(self._take().lines(entries))
        if lines:
            self._consumer.send(lines[0] if len(lines) == 1 else b"".join(lines))
        if cold is not None:
            self._read(cold)

    def _read(self, batch: DeliveryBatch) -> None:
        self._fetching = True
        self._background.read(lambda: self._payloads.read(batch.index, batch.ordinals), self._fetched)

    def _fetched(self, entries: list[bytes] | Exception) -> None:
        self._fetching = False
        if self.closed:
            return
        if isinstance(entries, LogCorrupt):
            self._on_damage(entries)
            return
        if isinstance(entries, EntriesGone) or self._batches[0][0].is_behind():
            self.flush()
            return
        if isinstance(entries, Exception):
            self._consumer.end()  # The disk fails: the messages are redelivered when their leases expire.
            return
        self._consumer.send(self._take().lines(entries))
        self.flush()

    def _take(self) -> DeliveryBatch:
        batch, size_bytes = self._batches.popleft()
        self._pending_bytes -= size_bytes
        return batch


def _numbers(attempt: int, tries: int) -> bytes:
    """The delivery's attempt, and the number that the policy counts where that differs."""
    if attempt == tries:
        return b'"attempts":%d,' % attempt
    return b'"attempts":%d,"tries":%d,' % (attempt, tries)

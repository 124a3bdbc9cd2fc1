"""Leases: which owner holds which deliveries, and until when.

One dispatch is one block. Blocks of the same lease length end in the order they began, so each length has a
FIFO and only heads are examined. A block whose messages are all done is dropped when it reaches the
head, or when finished blocks outnumber the others.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby, repeat

_COMPACT_FROM = 64


class Credit:
    """One consumer's messages in flight. Not part of the log: after a restart nothing counts as in flight."""

    __slots__ = ("in_flight", "in_flight_bytes", "signs")

    def __init__(self) -> None:
        self.in_flight = 0
        self.in_flight_bytes = 0
        self.signs = 0
        """Signs of life that its owner has given."""


NOBODY = Credit()
"""The credit of a lease whose consumer is unknown."""


class LeaseBlock:
    """Deliveries that went to one owner at one time."""

    __slots__ = ("credit", "lease_ms", "ordinals", "owner", "remaining", "signs", "size_bytes", "until")

    def __init__(self, *, owner: str, lease_ms: int, until: int, ordinals: Sequence[int]) -> None:
        self.owner = owner
        self.lease_ms = lease_ms
        self.until = until
        self.ordinals = ordinals
        self.remaining = len(ordinals)
        self.credit = NOBODY
        self.signs = 0
        self.size_bytes = 0

    def charge_to(self, credit: Credit, *, size_bytes: int) -> None:
        """Count this block's messages against the credit of a consumer."""
        self.credit = credit
        self.signs = credit.signs
        self.size_bytes = size_bytes
        credit.in_flight += self.remaining
        credit.in_flight_bytes += size_bytes

    @property
    def is_silent(self) -> bool:
        """Whether its owner is known and has given no sign of life since it got this."""
        return self.credit is not NOBODY and self.credit.signs == self.signs

    def drop(self, count: int) -> None:
        """`count` of its messages are no longer leased."""
        share = self.size_bytes * count // self.remaining
        self.remaining -= count
        self.size_bytes -= share
        self.credit.in_flight -= count
        self.credit.in_flight_bytes -= share


class LeaseTable:
    """The leased messages of one group in one partition, by ordinal."""

    __slots__ = ("_blocks", "_fifos", "_finished", "leased")

    def __init__(self) -> None:
        self.leased: dict[int, LeaseBlock] = {}
        self._fifos: dict[int, deque[LeaseBlock]] = {}
        self._blocks = 0
        self._finished = 0

    def __len__(self) -> int:
        return len(self.leased)

    def grant(self, block: LeaseBlock) -> None:
        self.leased.update(dict.fromkeys(block.ordinals, block))
        fifo = self._fifos.get(block.lease_ms)
        if fifo is None:
            fifo = self._fifos[block.lease_ms] = deque()
        fifo.append(block)
        self._blocks += 1

    def release(self, ordinal: int) -> bool:
        """End one lease; False when there was none."""
        block = self.leased.pop(ordinal, None)
        if block is None:
            return False
        block.drop(1)
        if not block.remaining:
            self._finish(block)
        return True

    def release_all(self, ordinals: Sequence[int]) -> None:
        """End many leases at once; those that are not leased are left out."""
        blocks = list(map(self.leased.pop, ordinals, repeat(None)))
        if blocks and blocks.count(blocks[0]) == len(blocks):  # Delivered and settled together.
            self._drop(blocks[0], len(blocks))
            return
        for block, same in groupby(blocks):
            self._drop(block, sum(1 for _ in same))

    def _drop(self, block: LeaseBlock | None, count: int) -> None:
        if block is not None:
            block.drop(count)
            if not block.remaining:
                self._finish(block)

    def expired(self, now: int) -> Iterator[LeaseBlock]:
        """Expired blocks that still hold messages."""
        for fifo in self._fifos.values():
            for block in fifo:
                if block.until > now:
                    break
                if block.remaining:
                    yield block

    def leased_by(self, block: LeaseBlock) -> list[int]:
        """The messages that are still leased by this block."""
        leased = self.leased
        return [ordinal for ordinal in block.ordinals if leased.get(ordinal) is block]

    def blocks(self) -> Iterator[tuple[LeaseBlock, list[int]]]:
        """Every block that holds messages, with those, in the order in which they end."""
        for fifo in self._fifos.values():
            for block in fifo:
                if block.remaining:
                    yield block, self.leased_by(block)

    def next_end(self) -> int | None:
        """When the next lease ends."""
        ends = [fifo[0].until for fifo in self._fifos.values() if fifo]
        return min(ends) if ends else None

    def _finish(self, block: LeaseBlock) -> None:
        self._finished += 1
        fifo = self._fifos[block.lease_ms]
        while fifo and not fifo[0].remaining:
            fifo.popleft()
            self._blocks -= 1
            self._finished -= 1
        if not fifo:
            del self._fifos[block.lease_ms]
        elif self._finished > _COMPACT_FROM and self._finished * 2 > self._blocks:
            self._compact()

    def _compact(self) -> None:
        for lease_ms, fifo in list(self._fifos.items()):
            live = deque(block for block in fifo if block.remaining)
            if live:
                self._fifos[lease_ms] = live
            else:
                del self._fifos[lease_ms]
        self._blocks = sum(map(len, self._fifos.values()))
        self._finished = 0

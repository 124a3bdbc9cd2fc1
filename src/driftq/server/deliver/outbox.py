"""What is on its way to one consumer, in order: a cold read holds back only this consumer's messages."""

from collections import deque
from collections.abc import Callable

from driftq.errors import LogCorrupt
from driftq.server.deliver.batch import DeliveryBatch
from driftq.server.ports import Background, ConsumerStream
from driftq.storage.payloads import EntriesGone, Payloads


class Outbox:
    """Sends parcels as soon as their bytes are at hand."""

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
        self._parcels: deque[tuple[DeliveryBatch, int]] = deque()
        """With the bytes that each counts for."""
        self._fetching = False
        self._pending_bytes = 0
        self.closed = False

    def unsent_bytes(self) -> int:
        return self._pending_bytes + self._consumer.unsent_bytes()

    def put(self, parcel: DeliveryBatch) -> None:
        """Send this behind everything put before."""
        if parcel.forget_dropped():
            size_bytes = parcel.size_bytes()
            self._parcels.append((parcel, size_bytes))
            self._pending_bytes += size_bytes
            self._drain()

    def _drain(self) -> None:
        while self._parcels and not self._fetching and not self.closed:
            parcel, _ = self._parcels[0]
            if not parcel.forget_dropped():
                self._take()
                continue
            try:
                entries = self._payloads.fetch(parcel.index, parcel.ordinals)
            except LogCorrupt as damage:
                self._on_damage(damage)
                return
            if entries is None:
                self._fetching = True
                self._background.read(
                    lambda parcel=parcel: self._payloads.read(parcel.index, parcel.ordinals),  # type: ignore[misc]
                    self._fetched,
                )
                return
            self._send(entries)

    def _fetched(self, entries: list[bytes] | Exception) -> None:
        self._fetching = False
        if self.closed:
            return
        if isinstance(entries, LogCorrupt):
            self._on_damage(entries)
            return
        if isinstance(entries, EntriesGone) or self._parcels[0][0].is_behind():
            self._drain()
            return
        if isinstance(entries, Exception):
            self._consumer.end()  # The disk does not answer: the lease will bring these messages back.
            return
        self._send(entries)
        self._drain()

    def _send(self, entries: list[bytes]) -> None:
        self._consumer.send(self._take().lines(entries))

    def _take(self) -> DeliveryBatch:
        parcel, size_bytes = self._parcels.popleft()
        self._pending_bytes -= size_bytes
        return parcel

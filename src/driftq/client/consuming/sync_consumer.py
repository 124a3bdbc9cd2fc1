"""A stream of deliveries for callers without an event loop."""

from __future__ import annotations

from typing import Self

from driftq.client.consuming.consumer import AsyncConsumer
from driftq.client.consuming.delivery import Delivery
from driftq.client.loop_thread import LoopThread


class Consumer:
    """Deliveries as they come, for `for`; ends when it is closed. For one thread at a time."""

    def __init__(self, consumer: AsyncConsumer, thread: LoopThread) -> None:
        self._consumer = consumer
        self._thread = thread

    @property
    def owner(self) -> str:
        return self._consumer.owner

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        source = self._consumer.source
        while True:
            line = source.ready()
            if line is not None:
                return Delivery(line, source.settling, source.subscription.lease_ms, self._thread)
            if not self._thread.run(source.fill()):
                raise StopIteration

    def take(self, count: int, *, within_s: float) -> list[Delivery]:
        """The next deliveries, at most so many, and fewer when no more come in this time."""
        taken = self._thread.run(self._consumer.take(count, within_s=within_s))
        return [one.for_thread(self._thread) for one in taken]

    def close(self) -> None:
        """Send the acks that are owed, then leave. What was given out and not acked stays leased."""
        self._thread.run(self._consumer.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

"""The parts of the sync client that the asyncio client has no counterpart for.

There is one implementation of every call, that of `AsyncClient`. A plain call, one request and its
response, is made on the thread that asks for it. Everything else runs on an event loop in a thread of its
own, and the generated classes wait for it. Any thread may use them; messages that several threads produce
at the same time share a request.
"""

from __future__ import annotations

from typing import Self

from driftq.client.async_client import AsyncClient
from driftq.client.consuming.consumer import AsyncConsumer
from driftq.client.follower import AsyncEventFollower
from driftq.client.loop_thread import LoopThread
from driftq.client.sync.delivery import Delivery
from driftq.model import Event


class ThreadClient:
    """An `AsyncClient` and the thread that its event loop runs on."""

    _awaited: AsyncClient
    _thread: LoopThread

    @classmethod
    def over(cls, awaited: AsyncClient, thread: LoopThread) -> Self:
        """The sync client of an `AsyncClient` that already runs on this thread; `close` closes all three."""
        client = cls.__new__(cls)
        client._bind(awaited, thread)
        return client

    def _bind(self, awaited: AsyncClient, thread: LoopThread) -> None:
        self._awaited = awaited
        self._thread = thread
        thread.steps = awaited._calls.direct is not None

    @property
    def awaited(self) -> AsyncClient:
        """The client behind this one; it runs on the loop of `thread`."""
        return self._awaited

    @property
    def thread(self) -> LoopThread:
        """The thread of this client's event loop."""
        return self._thread


class DeliveryIterator:
    """`for delivery in consumer`: a delivery that has arrived costs no switch to the loop's thread."""

    _awaited: AsyncConsumer
    _thread: LoopThread

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delivery:
        while (delivery := self._awaited._arrived()) is None:
            if not self._thread.run(self._awaited.source.fill()):
                raise StopIteration
        return Delivery(delivery, self._thread)


class EventIterator:
    """`for event in follower`: an event that has arrived costs no switch to the loop's thread."""

    _awaited: AsyncEventFollower
    _thread: LoopThread

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        while (event := self._awaited._arrived()) is None:
            if not self._thread.run(self._awaited._fill()):
                raise StopIteration
        return event

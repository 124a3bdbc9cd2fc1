"""`driftq.Worker`: consumes topics and runs a handler for each message.

    deliveries ─▶ held (≤ prefetch, leases renewed) ─▶ running (≤ concurrency) ─▶ settled

All of this happens on the client's loop, in its own thread; handlers run elsewhere.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, Self, TypeVar

from driftq.client import Client
from driftq.client.subscription import LEASE_MS, new_owner
from driftq.errors import DriftQError, InvalidArgument
from driftq.model import Message
from driftq.registry import Effect, Registry
from driftq.worker.handling import Declared, Handling
from driftq.worker.held import Heartbeats, HeldDelivery

_Handler = TypeVar("_Handler", bound=Callable[..., Any])

STOP_TIMEOUT_S = 30.0
_SLACK_S = 5.0
logger = logging.getLogger("driftq.worker")


class Settled(NamedTuple):
    """A message that is done with, and what its effect gave, now or when it was done before."""

    message: Message
    result: Any
    duplicate: bool


class Worker:
    """Handlers of one group. `run` works until `stop` is called, or Ctrl-C."""

    def __init__(
        self,
        client: Client,
        *,
        group: str,
        owner: str | None = None,
        lease_ms: int = LEASE_MS,
        registry: Registry | None = None,
        stop_timeout_s: float = STOP_TIMEOUT_S,
        on_settled: Callable[[Settled], None] | None = None,
    ) -> None:
        """`registry` is for TRANSACTIONAL effects. `on_settled` is told of each message that is done with."""
        self._client = client
        self._group = group
        self._owner = owner or new_owner()
        self._lease_ms = lease_ms
        self._registry = registry
        self._stop_timeout_s = stop_timeout_s
        self._on_settled = on_settled
        self._declared: list[Declared] = []
        self._working: Future[None] | None = None
        self._stopping: asyncio.Event | None = None
        self._ready = threading.Event()
        self.unknown = 0
        """Effects that this worker found cut off and dead-lettered for somebody to resolve."""

    def on(
        self,
        topic: str,
        *,
        effect: Effect,
        concurrency: int = 8,
        prefetch: int | None = None,
        steps: bool = False,
    ) -> Callable[[_Handler], _Handler]:
        """Declare the handler of a topic: called with a Message and a Context, plain or `async`.

        `effect` says what a crash in between means. `steps`: a message without an idempotency key is known
        by its run and step. `prefetch` bounds what is held; twice `concurrency` if not given.
        """
        if concurrency < 1 or (prefetch is not None and prefetch < 1):
            raise InvalidArgument("concurrency", "and prefetch must be at least 1")

        def declare(handler: _Handler) -> _Handler:
            if effect is Effect.TRANSACTIONAL and self._registry is None:
                raise InvalidArgument("effect", "TRANSACTIONAL needs a registry: Worker(…, registry=…)")
            if effect is Effect.TRANSACTIONAL and inspect.iscoroutinefunction(handler):
                raise InvalidArgument("effect", "TRANSACTIONAL is for handlers that are not async")
            if any(one.topic == topic for one in self._declared):
                raise InvalidArgument("topic", f"{topic!r} has a handler already")
            self._declared.append(
                Declared(
                    topic=topic,
                    call=handler,
                    effect=effect,
                    concurrency=concurrency,
                    prefetch=prefetch or 2 * concurrency,
                    steps=steps,
                    name=f"{self._group}/{topic}",
                    lease_ms=self._lease_ms,
                )
            )
            return handler

        return declare

    def start(self) -> None:
        """Begin to work in the background."""
        if not self._declared:
            raise InvalidArgument("worker", "has no handlers")
        if self._working is None:
            self._ready.clear()
            self._working = asyncio.run_coroutine_threadsafe(self._work(), self._client.thread.loop)
            self._ready.wait()

    def run(self) -> None:
        """Work until stopped. Raises what trying again cannot mend, such as TopicNotFound."""
        self.start()
        working = self._working
        assert working is not None
        try:
            working.result()
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """Take no more, finish what runs, give back what waits; bounded by `stop_timeout_s`."""
        working = self.ask_to_stop()
        if working is not None:
            working.result(self._stop_timeout_s + _SLACK_S)
            self._working = None

    def ask_to_stop(self) -> Future[None] | None:
        """The same without waiting: safe where a signal is handled."""
        if self._working is not None and self._stopping is not None and not self._working.done():
            self._client.thread.loop.call_soon_threadsafe(self._stopping.set)
        return self._working

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # On the client's loop

    async def _work(self) -> None:
        self._stopping = asyncio.Event()
        self._ready.set()
        serving = [asyncio.ensure_future(self._serve(one)) for one in self._declared]
        try:
            await asyncio.gather(*serving)
        finally:
            self._stopping.set()
            await asyncio.gather(*serving, return_exceptions=True)

    async def _serve(self, declared: Declared) -> None:
        """One topic until we are asked to stop."""
        assert self._stopping is not None
        client = self._client.awaited
        handling = Handling(client, declared, self._registry, self._settled)
        heartbeats = Heartbeats(lease_ms=self._lease_ms)
        beating = asyncio.ensure_future(heartbeats.run())
        room = asyncio.Semaphore(declared.concurrency)
        tasks: set[asyncio.Task[None]] = set()
        consumer = client.consume(
            declared.topic,
            self._group,
            owner=self._owner,
            lease_ms=self._lease_ms,
            prefetch=declared.prefetch,
        )
        loop = asyncio.get_running_loop()

        async def one(held: HeldDelivery) -> None:
            try:
                async with room:
                    if self._stopping is not None and self._stopping.is_set():
                        await _release(held)
                    elif not held.lost:
                        await handling.handle(held)
            finally:
                heartbeats.drop(held)

        async def read() -> None:
            async for delivery in consumer:
                held = HeldDelivery(delivery, client.idempotency, loop)
                heartbeats.add(held)
                task = asyncio.create_task(one(held))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        reading = asyncio.ensure_future(read())
        stopped = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait({reading, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                await reading
            reading.cancel()
            if tasks:
                _, left = await asyncio.wait(set(tasks), timeout=self._stop_timeout_s)
                for task in left:
                    task.cancel()
                if left:
                    logger.warning("%d handlers of %s did not end in time", len(left), declared.topic)
        finally:
            for ending in (beating, reading, stopped):
                ending.cancel()
            self.unknown += handling.unknown
            await consumer.close()
            handling.pool.close()

    def _settled(self, message: Message, result: Any, *, duplicate: bool) -> None:
        if self._on_settled is not None:
            self._on_settled(Settled(message, result, duplicate))


async def _release(held: HeldDelivery) -> None:
    """Give it back: somebody else gets it when this lease ends, which is at once."""
    try:
        await held.delivery.extend(1)
    except DriftQError as refused:
        logger.info("%r could not be given back: %s", held.delivery, refused)

"""`driftq.Worker`: consumes topics and runs a handler for each message.

    deliveries ─▶ held (≤ prefetch, leases renewed) ─▶ running (≤ concurrency) ─▶ settled

All of this happens on the client's loop, in its own thread; handlers run elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from driftq.client import AsyncClient, Client
from driftq.client.consuming.subscription import LEASE_MS, new_owner
from driftq.effects.declared import check_declared
from driftq.errors import DriftQError, InvalidArgument
from driftq.model import Message
from driftq.registry import Effect
from driftq.registry.handler import HANDLER_BYTES_MAX
from driftq.worker.background import STOP_TIMEOUT_S, BackgroundWork
from driftq.worker.failures import describe
from driftq.worker.handling import Declared, Handling
from driftq.worker.leases import DeliveryHeartbeats, LeasedDelivery
from driftq.worker.running.hooks import Hook, Hooked, HookRunner, Hooks
from driftq.worker.signatures import awaits, check_handler
from driftq.worker.sinks import WorkerSinks

if TYPE_CHECKING:
    from driftq.effects.sinks import SinkBindings
    from driftq.registry.sql_registry import SqlRegistry

_Handler = TypeVar("_Handler", bound=Callable[..., Any])

logger = logging.getLogger("driftq.worker")


class Settled(NamedTuple):
    """A message that is done with, and what its effect gave, now or when it was done before."""

    message: Message
    result: Any
    duplicate: bool


class Worker(Hooked, BackgroundWork):
    """Handlers of one group. `run` works until `stop` is called, or Ctrl-C."""

    def __init__(
        self,
        client: Client | AsyncClient,
        *,
        group: str,
        owner: str | None = None,
        lease_ms: int = LEASE_MS,
        registry: SqlRegistry | None = None,
        sinks: SinkBindings | None = None,
        stop_timeout_s: float = STOP_TIMEOUT_S,
        on_settled: Callable[[Settled], None] | None = None,
        on_start: Hook | None = None,
        on_success: Hook | None = None,
        on_failure: Hook | None = None,
        on_dead: Hook | None = None,
    ) -> None:
        """`on_settled` is called for each settled message, the other hooks as those of the decorators.

        `registry` has the record of effects in place of the broker; TRANSACTIONAL effects need one. `sinks`
        are those that IDEMPOTENT handlers write by `context.sink(name)`: addresses, or sinks, by name.
        """
        super().__init__(client, stop_timeout_s=stop_timeout_s)
        self._group = group
        self._owner = owner or new_owner()
        self._lease_ms = lease_ms
        self._registry = registry
        self._sinks = WorkerSinks(sinks or {})
        self._on_settled = on_settled
        self._hooks = Hooks(on_start=on_start, on_success=on_success, on_failure=on_failure, on_dead=on_dead)
        self._declared: list[Declared] = []
        self.unknown = 0
        """Effects that this worker found cut off and dead-lettered for an operator to resolve."""

    def on(
        self,
        topic: str,
        *,
        effect: Effect,
        concurrency: int = 8,
        prefetch: int | None = None,
        steps: bool = False,
        max_attempts: int | None = None,
    ) -> Callable[[_Handler], _Handler]:
        """Declare the handler of a topic: called with a Message and a Context, plain or `async`.

        `effect` says what a crash in between means. `steps`: a message whose producer gave no key is known by
        its run and step. `prefetch` bounds what is held; twice `concurrency` if not given. A message that
        fails at attempt `max_attempts` or later is given up, also where its own policy would allow more.
        Raises InvalidArgument for a handler that cannot be called like that.
        """
        if concurrency < 1 or (prefetch is not None and prefetch < 1):
            raise InvalidArgument("concurrency", "and prefetch must be at least 1")
        if max_attempts is not None and max_attempts < 1:
            raise InvalidArgument("max_attempts", "must be at least 1")

        def declare(handler: _Handler) -> _Handler:
            check_handler(handler)
            if effect is Effect.TRANSACTIONAL and self._registry is None:
                raise InvalidArgument("effect", "TRANSACTIONAL needs a registry: Worker(…, registry=…)")
            if effect is Effect.TRANSACTIONAL and awaits(handler):
                raise InvalidArgument("effect", "TRANSACTIONAL is for handlers that are not async")
            name = f"{self._group}/{topic}"
            check_declared(name, handler, effect)
            if self._registry is not None and len(name.encode()) > HANDLER_BYTES_MAX:
                raise InvalidArgument(
                    "group", f"and topic are longer than {HANDLER_BYTES_MAX} bytes together"
                )
            if any(handle_one.topic == topic for handle_one in self._declared):
                raise InvalidArgument("topic", f"{topic!r} has a handler already")
            self._declared.append(
                Declared(
                    topic=topic,
                    call=handler,
                    effect=effect,
                    concurrency=concurrency,
                    prefetch=prefetch or 2 * concurrency,
                    steps=steps,
                    name=name,
                    lease_ms=self._lease_ms,
                    max_attempts=max_attempts,
                )
            )
            return handler

        return declare

    def _check(self) -> None:
        if not self._declared:
            raise InvalidArgument("worker", "has no handlers")
        if self._sinks and all(declared.effect is not Effect.IDEMPOTENT for declared in self._declared):
            raise InvalidArgument("sinks", "are for handlers declared IDEMPOTENT, and the worker has none")
        if self._registry is not None:
            self._registry.check()
        self._sinks.open()

    def _described(self) -> str:
        handlers = ", ".join(handle_one.described() for handle_one in self._declared)
        return f"worker {self._owner}, group {self._group}, {self._loop.url}: {handlers}"

    # On the client's loop

    async def _work(self, stopping: asyncio.Event) -> None:
        hooks = HookRunner(self._hooks)
        serving = [
            asyncio.ensure_future(self._serve(handle_one, stopping, hooks)) for handle_one in self._declared
        ]
        try:
            await asyncio.gather(*serving)
        finally:
            stopping.set()
            await asyncio.gather(*serving, return_exceptions=True)
            self._sinks.close()
            await asyncio.to_thread(hooks.close, self._stop_timeout_s)

    async def _serve(self, declared: Declared, stopping: asyncio.Event, hooks: HookRunner) -> None:
        """One topic until we are asked to stop."""
        client = self._loop.awaited
        handling = Handling(client, declared, self._registry, self._sinks, self._settled, hooks)
        heartbeats = DeliveryHeartbeats(lease_ms=self._lease_ms)
        beating = asyncio.ensure_future(heartbeats.run())
        slots = asyncio.Semaphore(declared.concurrency)
        tasks: set[asyncio.Task[None]] = set()
        consumer = client.consume(
            declared.topic,
            self._group,
            owner=self._owner,
            lease_ms=self._lease_ms,
            prefetch=declared.prefetch,
        )
        loop = asyncio.get_running_loop()

        async def handle_one(leased: LeasedDelivery) -> None:
            try:
                async with slots:
                    if stopping.is_set():
                        await _release(leased)
                    elif not leased.lost:
                        await handling.handle(leased)
            finally:
                heartbeats.drop(leased)

        async def read() -> None:
            async for delivery in consumer:
                leased = LeasedDelivery(delivery, loop)
                heartbeats.add(leased)
                task = asyncio.create_task(handle_one(leased))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

        reading = asyncio.ensure_future(read())
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({reading, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                await reading
            reading.cancel()
            self._sinks.stop()
            await consumer.leave()
            for _ in tasks:
                slots.release()  # What waits for its turn gets it now, only to be given back.
            if tasks:
                _, left = await asyncio.wait(set(tasks), timeout=self._stop_timeout_s)
                for task in left:
                    task.cancel()
                if left:
                    logger.warning("%d handlers of %s did not finish in time", len(left), declared.topic)
        finally:
            for ending in (beating, reading, stopped):
                ending.cancel()
            self.unknown += handling.unknown
            await consumer.close()
            handling.close()

    def _settled(self, message: Message, result: Any, *, duplicate: bool) -> None:
        if self._on_settled is not None:
            self._on_settled(Settled(message, result, duplicate))


async def _release(leased: LeasedDelivery) -> None:
    """Give it back unstarted: another worker gets it at once, and it costs no attempt."""
    try:
        await leased.delivery.nack(started=False)
    except DriftQError as refused:
        logger.info("%s: %s", describe(leased.delivery, "could not be released"), refused)

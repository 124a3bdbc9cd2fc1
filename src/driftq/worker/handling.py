"""One delivery from begin to settlement: begin → handler → commit → ack, or fail → nack."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from driftq.client import AlreadyCommitted, AsyncClient, Begun
from driftq.errors import DriftQError, FailedPrecondition
from driftq.model import Message
from driftq.registry import ClaimOutcome, Effect, EventKey, Handler, Registry
from driftq.worker.held import HeldDelivery
from driftq.worker.pool import HandlerPool
from driftq.worker.scope import UnknownEffect, begin_effect, effect_key
from driftq.worker.verdict import Reject, Retry, error_text, stored_result

logger = logging.getLogger("driftq.worker")

_POLL_S = 0.05


class Callback(Protocol):
    """Asked once for each message that is done with."""

    def __call__(self, message: Message, result: Any, *, duplicate: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A handler as it was declared."""

    topic: str
    call: Callable[..., Any]
    effect: Effect
    concurrency: int
    prefetch: int
    steps: bool
    name: str
    lease_ms: int


class Handling:
    """Runs one handler for one delivery at a time, on the client's loop."""

    def __init__(
        self, client: AsyncClient, declared: Declared, registry: Registry | None, done: Callback
    ) -> None:
        self._client = client
        self._declared = declared
        self._registry = registry
        self._done = done
        call = self._transactional if declared.effect is Effect.TRANSACTIONAL else declared.call
        self.pool = HandlerPool(call, concurrency=declared.concurrency, name=f"driftq-{declared.topic}")
        self.unknown = 0
        """Effects that were found cut off, and dead-lettered for somebody to resolve."""

    async def handle(self, held: HeldDelivery) -> None:
        """Begin, run, commit, ack. What the server refuses, or is not there for, comes again."""
        try:
            if self._declared.effect is Effect.TRANSACTIONAL:
                await self._run(held, None)
            else:
                await self._in_scope(held)
        except UnknownEffect as unknown:
            self.unknown += 1
            reason = f"effect unknown: {unknown}; resolve it, then redrive"
            logger.error("%r: %s", held.delivery, reason)
            await self._settle(held.delivery.nack(reason, retryable=False), held)
        except FailedPrecondition as refused:
            held.lose()
            logger.warning("%r is no longer ours: %s", held.delivery, refused)
        except DriftQError as failure:
            logger.warning("%r comes again: %s", held.delivery, failure)

    async def _in_scope(self, held: HeldDelivery) -> None:
        delivery, effect = held.delivery, self._declared.effect
        key = effect_key(delivery, steps=self._declared.steps)
        if not key:
            if effect is Effect.UNKNOWN and delivery.attempt > 1:
                raise UnknownEffect("delivered before, and without an idempotency key nothing is on record")
            await self._run(held, None)
            return
        begun = await begin_effect(self._client, delivery, key, effect)
        if isinstance(begun, AlreadyCommitted):
            await delivery.ack()
            self._done(held.message, begun.result, duplicate=True)
            return
        held.begun = begun
        held.context.token = begun.token
        await self._run(held, begun)

    async def _run(self, held: HeldDelivery, begun: Begun | None) -> None:
        if held.lost:
            return
        running = held.running = self.pool.submit(held.message, held.context)
        try:
            result = await asyncio.wrap_future(running)
        except asyncio.CancelledError:
            if not held.context.lost:
                running.cancel()
                raise
            return  # Somebody else has it.
        except Exception as error:  # noqa: BLE001 - the worker loop: whatever a handler raises fails its message.
            await self._failed(held, begun, error)
            return
        # A crash from here to the commit repeats an idempotent effect, and leaves an unknown one to resolve.
        if begun is not None:
            await self._client.idempotency.mark_success(begun, result=stored_result(result))
            held.begun = None
        await held.delivery.ack()
        self._done(held.message, result, duplicate=False)

    async def _failed(self, held: HeldDelivery, begun: Begun | None, error: Exception) -> None:
        reason = error_text(error)
        if isinstance(error, Retry | Reject):
            logger.info("%r: %s", held.delivery, reason)
        else:
            logger.warning("%r failed", held.delivery, exc_info=error)
        if begun is not None:
            held.begun = None
            await self._client.idempotency.mark_failure(begun, error=reason)
        if isinstance(error, Retry) and error.after_ms is not None:
            await self._settle(held.delivery.extend(error.after_ms), held)  # It comes when this lease ends.
        else:
            await self._settle(held.delivery.nack(reason, retryable=not isinstance(error, Reject)), held)

    async def _settle(self, settling: Any, held: HeldDelivery) -> None:
        try:
            await settling
        except DriftQError as refused:
            logger.warning("%r could not be settled: %s", held.delivery, refused)

    def _transactional(self, message: Message, context: Any) -> Any:
        """In a handler's thread: claim, then the handler's SQL and the mark in one transaction."""
        registry, declared = self._registry, self._declared
        assert registry is not None, "checked when the handler was declared"
        envelope = message.envelope
        tenant, key = (envelope.tenant_id or "", envelope.idempotency_key or "") if envelope else ("", "")
        if not key and declared.steps and context.run_id and context.step_id:
            key = f"step:{context.run_id}/{context.step_id}"
        if not key:
            raise Reject("a transactional effect needs an idempotency key, and this message has none")
        event_id = f"{tenant}\x1f{key}" if tenant else key
        event = EventKey(event_id, message.topic, event_id, 1)
        claim = registry.claim(
            Handler(declared.name, Effect.TRANSACTIONAL, lease_ms=declared.lease_ms), event
        )
        if claim.outcome is ClaimOutcome.IN_PROGRESS:
            raise Retry("somebody else is at it", after=max(_POLL_S, claim.wait_ms / 1000))
        if not claim.granted:
            return None  # Done before.
        context.token = claim.token
        try:
            with registry.apply(claim) as transaction:
                context.transaction = transaction
                return declared.call(message, context)
        except Exception:
            registry.release(claim)  # All of it is rolled back: nothing was begun.
            raise

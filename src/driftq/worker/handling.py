"""One delivery from begin to settlement: begin → handler → commit → ack, or fail → nack."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from driftq.client import AlreadyCommitted, AsyncClient
from driftq.errors import DriftQError, FailedPrecondition, InvalidArgument
from driftq.model import Message
from driftq.registry import Effect
from driftq.registry.verdict import Reject, Released, Retry, UnknownEffect, error_text
from driftq.telemetry.log_context import LogIds, log_ids
from driftq.telemetry.tracing import Attributes, handling_span, record_failure
from driftq.worker.broker_scope import BrokerScope
from driftq.worker.failures import DeadLetterPartitions, GivenUp, Redelivery, describe, fate_of
from driftq.worker.leases import LeasedDelivery
from driftq.worker.pool import HandlerEnded, HandlerPool
from driftq.worker.registry_scope import CUT_OFF, RegistryGrant, RegistryScope
from driftq.worker.running.hooks import HookRunner
from driftq.worker.scope import POLL_LONGEST_S, EffectGrant, Scope, effect_id, effect_key
from driftq.worker.sinks import WorkerSinks

if TYPE_CHECKING:
    from driftq.registry.sql_registry import SqlRegistry

logger = logging.getLogger("driftq.worker")


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
    max_attempts: int | None = None
    """A limit of the handler's own; None: only the message's."""

    def described(self) -> str:
        """For the log: what is done with which topic."""
        facts = [str(self.effect), f"concurrency {self.concurrency}", f"prefetch {self.prefetch}"]
        if self.max_attempts is not None:
            facts.append(f"max_attempts {self.max_attempts}")
        if self.steps:
            facts.append("steps")
        return f"{self.topic} ({', '.join(facts)})"


class Handling:
    """Runs one handler for one delivery at a time, on the client's loop."""

    def __init__(
        self,
        client: AsyncClient,
        declared: Declared,
        registry: SqlRegistry | None,
        sinks: WorkerSinks,
        done: Callback,
        hooks: HookRunner,
    ) -> None:
        self._declared = declared
        self._hooks = hooks
        self._call = hooks.starting(declared.call)
        self._sinks = sinks
        self._done = done
        name, effect = declared.name, declared.effect
        self._registry = (
            RegistryScope(
                registry, name, effect, lease_ms=declared.lease_ms, concurrency=declared.concurrency
            )
            if registry
            else None
        )
        self._scope: Scope = self._registry or BrokerScope(client, effect)
        self.pool = HandlerPool(self._call, concurrency=declared.concurrency, name=f"driftq-{declared.topic}")
        self._dead_letters = DeadLetterPartitions(client, declared.topic)
        self.unknown = 0
        """Effects that were found cut off, and dead-lettered for an operator to resolve."""

    def close(self) -> None:
        """Let go of its threads, waiting for none of them."""
        self.pool.close()
        if self._registry is not None:
            self._registry.close()

    async def handle(self, leased: LeasedDelivery) -> None:
        """Begin, run, commit, ack. If the server refuses or is away, the message is redelivered."""
        with log_ids(**_ids(leased)):
            await self._handle(leased)

    async def _handle(self, leased: LeasedDelivery) -> None:
        try:
            await self._in_scope(leased)
        except UnknownEffect as unknown:
            self.unknown += 1
            await self._give_up(leased, f"effect unknown: {unknown}; resolve it, then redrive")
        except Reject as hopeless:
            await self._give_up(leased, hopeless.reason)
        except FailedPrecondition as refused:
            leased.lose()
            logger.warning("%s: %s", self._describe(leased, "is no longer leased to this worker"), refused)
        except DriftQError as failure:
            what = "could not be settled and is redelivered when its lease ends"
            logger.warning("%s: %s", self._describe(leased, what), failure)

    async def _in_scope(self, leased: LeasedDelivery) -> None:
        delivery, effect = leased.delivery, self._declared.effect
        key = effect_key(delivery.envelope, steps=self._declared.steps)
        leased.context.attach(
            handler=self._declared.name,
            effect=effect,
            effect_id=effect_id(delivery, key),
            open_sink=lambda name: self._sinks.handle(name, delivery, leased.context),
        )
        if not key:
            if effect is Effect.TRANSACTIONAL:
                raise Reject("a transactional effect needs an idempotency key, and this message has none")
            if effect is Effect.UNKNOWN and delivery.tries > 1:
                raise UnknownEffect(
                    "delivered before, and without an idempotency key there is no record of its effect"
                )
            await self._run(leased, None)
            return
        while True:
            begun = await self._begin(leased, key)
            if isinstance(begun, AlreadyCommitted):
                await delivery.ack()
                self._done(leased.message, begun.result, duplicate=True)
                return
            leased.grant = begun
            leased.context.token = begun.token
            try:
                await self._run(leased, begun)
            except CUT_OFF as cut_off:
                logger.warning("%s: %s", self._describe(leased, "is retried"), cut_off)
                await asyncio.sleep(POLL_LONGEST_S)
                with suppress(FailedPrecondition):  # It is over or another's, as the next begin will tell.
                    await self._give_back(leased, begun, error_text(cut_off))
            else:
                return

    async def _begin(self, leased: LeasedDelivery, key: str) -> EffectGrant | AlreadyCommitted:
        try:
            return await self._scope.begin(leased, key)
        except InvalidArgument as wrong:
            raise Reject(f"its effect cannot be recorded: {wrong}") from wrong

    async def _run(self, leased: LeasedDelivery, grant: EffectGrant | None) -> None:
        if leased.lost:
            return
        envelope = leased.delivery.envelope
        with handling_span(
            f"process {self._declared.topic}", envelope.traceparent, lambda: _attributes(leased)
        ) as span:
            running = leased.running = self._submit(leased, grant)
            try:
                ended = await asyncio.wrap_future(running)
            except asyncio.CancelledError:
                if not leased.context.lost:
                    running.cancel()
                    raise
                return  # Somebody else has it.
            if ended.error is not None:
                record_failure(span, ended.error)
        if ended.error is not None:
            if self._declared.effect is Effect.TRANSACTIONAL and isinstance(ended.error, CUT_OFF):
                raise ended.error
            if isinstance(ended.error, UnknownEffect):
                await self._leave_unknown(leased, grant, ended.error)
                raise ended.error
            await self._failed(leased, grant, ended.error)
            return
        # A crash from here to the commit repeats an idempotent effect, and leaves an unknown one to resolve.
        if grant is not None:
            await grant.commit(ended.result)
            leased.grant = None
        await leased.delivery.ack()
        self._done(leased.message, ended.result, duplicate=False)
        self._hooks.succeeded(leased.context, ended.result)

    def _submit(self, leased: LeasedDelivery, grant: EffectGrant | None) -> Future[HandlerEnded]:
        if self._declared.effect is Effect.TRANSACTIONAL:
            assert self._registry is not None, "checked when the handler was declared"
            assert isinstance(grant, RegistryGrant), "without a key it was rejected"
            return self.pool.submit_as(
                self._registry.perform, self._call, leased.message, leased.context, grant
            )
        return self.pool.submit(leased.message, leased.context)

    async def _failed(self, leased: LeasedDelivery, grant: EffectGrant | None, error: BaseException) -> None:
        delivery, reason = leased.delivery, error_text(error)
        fate = fate_of(delivery, error, max_attempts=self._declared.max_attempts)
        await self._log_failure(leased, error, fate)
        if grant is not None:
            await self._give_back(leased, grant, reason)
        if isinstance(error, Released):
            await self._settle(delivery.nack(started=False), leased)
            return
        if isinstance(fate, Redelivery) and isinstance(error, Retry) and error.after_ms is not None:
            settling = delivery.extend(error.after_ms)  # It comes when this lease ends.
        else:
            retryable = not (isinstance(fate, GivenUp) and fate.by_worker)
            settling = delivery.nack(reason, retryable=retryable)
        if await self._settle(settling, leased):
            self._hooks.failed(leased.context, error, dead=isinstance(fate, GivenUp))

    async def _log_failure(
        self, leased: LeasedDelivery, error: BaseException, fate: Redelivery | GivenUp
    ) -> None:
        """What failed and what happens next; with the frames of whatever was not raised on purpose."""
        place = (
            "" if isinstance(fate, Redelivery) else await self._dead_letters.name(leased.delivery.partition)
        )
        follows = str(fate) if isinstance(fate, Redelivery) else f"given up → {place}"
        match error:
            case Reject():
                logger.warning("%s: %s", self._describe(leased, f"rejected, {follows}"), error.reason)
            case Retry():
                level = logging.INFO if isinstance(fate, Redelivery) else logging.ERROR
                logger.log(
                    level, "%s: %s", self._describe(leased, f"asked for a retry, {follows}"), error.reason
                )
            case _:
                level = logging.WARNING if isinstance(fate, Redelivery) else logging.ERROR
                logger.log(level, "%s", self._describe(leased, f"failed, {follows}"), exc_info=error)

    async def _give_back(self, leased: LeasedDelivery, grant: EffectGrant, reason: str) -> None:
        leased.grant = None
        await grant.fail(reason)

    async def _leave_unknown(
        self, leased: LeasedDelivery, grant: EffectGrant | None, error: UnknownEffect
    ) -> None:
        """The handler cannot tell whether it happened: nobody begins it again before it is resolved."""
        leased.grant = None
        if grant is not None:
            await grant.leave_unknown(error_text(error))

    async def _give_up(self, leased: LeasedDelivery, reason: str) -> None:
        """What no handler was asked about."""
        place = await self._dead_letters.name(leased.delivery.partition)
        logger.error("%s: %s", self._describe(leased, f"was not handled, given up → {place}"), reason)
        if await self._settle(leased.delivery.nack(reason, retryable=False), leased):
            self._hooks.dead(leased.context, Reject(reason))

    async def _settle(self, settling: Coroutine[Any, Any, None], leased: LeasedDelivery) -> bool:
        """Whether the server has confirmed it."""
        try:
            await settling
        except DriftQError as refused:
            logger.warning("%s: %s", self._describe(leased, "could not be released"), refused)
            return False
        return True

    def _describe(self, leased: LeasedDelivery, what: str) -> str:
        return describe(leased.delivery, what, max_attempts=self._declared.max_attempts)


def _ids(leased: LeasedDelivery) -> LogIds:
    """What every log line about this delivery carries, the handler's own lines too."""
    delivery = leased.delivery
    ids: LogIds = {
        "topic": delivery.topic,
        "partition": delivery.partition,
        "offset": delivery.offset,
        "group": delivery.group,
        "attempt": delivery.attempt,
    }
    if delivery.envelope.run_id:
        ids["run_id"] = delivery.envelope.run_id
    if delivery.envelope.step_id:
        ids["step_id"] = delivery.envelope.step_id
    return ids


def _attributes(leased: LeasedDelivery) -> Attributes:
    """By OpenTelemetry's conventions for messaging."""
    delivery = leased.delivery
    return {
        "messaging.system": "driftq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": delivery.topic,
        "messaging.destination.partition.id": str(delivery.partition),
        "messaging.consumer.group.name": delivery.group,
        "messaging.message.id": str(delivery.offset),
        "driftq.attempt": delivery.attempt,
    }

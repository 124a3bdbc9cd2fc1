"""Effects on the record of an SQL registry: claim → effect → mark, and what the effect gave.

Each message is an aggregate of its own with one event. The broker alone counts attempts and keeps dead
letters, so the registry never gives an event up. Its calls block and are made in threads of this handler's
own, enough for each run and its heartbeat: a call that hangs keeps no other handler waiting. While its
database is away nothing is acknowledged, charged or given up: the message stays leased, and the call is made
again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from driftq.client import AlreadyCommitted, AsyncDelivery
from driftq.errors import (
    DatabaseBusy,
    DatabaseUnavailable,
    LeaseLost,
    NoCurrentDelivery,
    TransactionConflict,
    WrongClaimState,
)
from driftq.model import Message
from driftq.model.backoff import doubled
from driftq.registry import Claim, ClaimOutcome, ClaimState, Effect, EventKey, Handler, Wait
from driftq.registry.verdict import Reject, UnknownEffect
from driftq.worker.failures import describe
from driftq.worker.leases import LeasedDelivery
from driftq.worker.scope import POLL_FIRST_S, POLL_LONGEST_S, EffectGrant, stored_result

if TYPE_CHECKING:
    from driftq.registry.sql_registry import SqlRegistry

TRANSIENT = (DatabaseUnavailable, DatabaseBusy, TransactionConflict)
"""What ends by itself, and has kept nothing of the transaction."""
CUT_OFF = (*TRANSIENT, LeaseLost, WrongClaimState)
"""How a transactional effect ends that was rolled back, or committed and the answer lost."""
_NO_LIMIT = 2**31
_Result = TypeVar("_Result")
logger = logging.getLogger("driftq.worker")


class RegistryGrant:
    """A claim. That of a transactional effect is marked in the effect's own transaction."""

    def __init__(self, scope: RegistryScope, claim: Claim, leased: LeasedDelivery) -> None:
        self._scope = scope
        self._leased = leased
        self.claim = claim
        self.token = claim.token

    async def extend(self) -> None:
        if not self._scope.transactional:  # There the aggregate is locked, and no worker can take it over.
            await self._scope.in_thread(lambda: self._scope.registry.heartbeat(self.claim))

    async def commit(self, result: Any) -> None:
        if not self._scope.transactional:
            stored = _as_text(result)
            await self._scope.call(self._leased, lambda: self._mark_done(stored))

    def _mark_done(self, stored: str | None) -> None:
        self._scope.registry.mark_done(self.claim, result=stored)

    async def fail(self, error: str) -> None:
        await self._scope.call(self._leased, lambda: self._scope.registry.release(self.claim))

    async def leave_unknown(self, error: str) -> None:
        registry = self._scope.registry
        await self._scope.call(self._leased, lambda: registry.mark_unknown(self.claim, error=error))


class RegistryScope:
    """Implements `Scope`."""

    def __init__(
        self, registry: SqlRegistry, name: str, effect: Effect, *, lease_ms: int, concurrency: int
    ) -> None:
        self.registry = registry
        self.transactional = effect is Effect.TRANSACTIONAL
        self._handler = Handler(name, effect, max_retries=_NO_LIMIT, lease_ms=lease_ms)
        self._threads = ThreadPoolExecutor(2 * concurrency, thread_name_prefix="driftq-registry")

    async def begin(self, leased: LeasedDelivery, key: str) -> EffectGrant | AlreadyCommitted:
        event = _event(leased.delivery, key)
        while True:
            claim = await self.call(leased, lambda: self.registry.claim(self._handler, event))
            if claim.granted:
                return RegistryGrant(self, claim, leased)
            if claim.state is ClaimState.DEAD:
                raise Reject(f"given up in the registry ({claim.last_error}); requeue it there, then redrive")
            if claim.outcome is not ClaimOutcome.IN_PROGRESS:
                return AlreadyCommitted(await self._result(leased, event))
            if claim.wait is Wait.UNRESOLVED:
                raise UnknownEffect(f"it is recorded as {event.event_id!r} of {self._handler.name!r}")
            await asyncio.sleep(min(max(claim.wait_ms / 1000, POLL_FIRST_S), POLL_LONGEST_S))

    async def call(self, leased: LeasedDelivery, work: Callable[[], _Result]) -> _Result:
        """The result of the work, in a thread; repeated while the database is away and the lease is ours."""
        pause_s = POLL_FIRST_S
        while not leased.lost:
            try:
                return await self.in_thread(work)
            except TRANSIENT as away:
                logger.warning("%s: %s", describe(leased.delivery, "is waiting for its registry"), away)
                await asyncio.sleep(pause_s)
                pause_s = doubled(pause_s, cap=POLL_LONGEST_S)
        raise NoCurrentDelivery

    async def in_thread(self, work: Callable[[], _Result]) -> _Result:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def close(self) -> None:
        """Wait for no one: what still runs has lost its worker."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def perform(self, call: Callable[..., Any], message: Message, context: Any, grant: RegistryGrant) -> Any:
        """In a handler's thread: its SQL, what it gave and the mark in one transaction."""
        with self.registry.apply(grant.claim) as transaction:
            context.transaction = transaction
            result = call(message, context)
            stored = _as_text(result)
            if stored is not None:
                self.registry.keep_result(grant.claim, stored, transaction=transaction)
        return result

    async def _result(self, leased: LeasedDelivery, event: EventKey) -> Any:
        stored = await self.call(leased, lambda: self.registry.result_of(self._handler.name, event.event_id))
        return None if stored is None else msgspec.json.decode(stored)


def _event(delivery: AsyncDelivery, key: str) -> EventKey:
    """The effect's identity. A plain key is its own name; others are lists, which no plain key looks like."""
    tenant = delivery.envelope.tenant_id or ""
    if tenant or delivery.requested_topic != delivery.topic or key.startswith('["'):
        key = msgspec.json.encode([tenant, delivery.requested_topic, key]).decode()
    return EventKey(key, delivery.topic, key, 1)


def _as_text(result: Any) -> str | None:
    stored = stored_result(result)
    return bytes(stored).decode() if isinstance(stored, msgspec.Raw) else None

"""A delivery in the worker's hands, from its arrival to its settlement, and what keeps it there."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from typing import Any

from driftq.client import AsyncDelivery
from driftq.errors import DriftQError, FailedPrecondition
from driftq.model import Message
from driftq.worker.context import Context
from driftq.worker.failures import describe
from driftq.worker.scope import EffectGrant

logger = logging.getLogger("driftq.worker")

_EXTENDING_MAX = 32


class LeasedDelivery:
    """One delivery: its leases and the run under way."""

    def __init__(self, delivery: AsyncDelivery, loop: asyncio.AbstractEventLoop) -> None:
        self.delivery = delivery
        self.grant: EffectGrant | None = None
        self.running: Future[Any] | None = None
        self._loop = loop
        self.message = Message(
            topic=delivery.topic,
            value=delivery.value,
            key=delivery.key,
            envelope=delivery.envelope,
            routing=delivery.routing,
            headers=delivery.headers,
        )
        self.context = Context(
            group=delivery.group,
            topic=delivery.topic,
            partition=delivery.partition,
            offset=delivery.offset,
            attempt=delivery.attempt,
            envelope=delivery.envelope,
            last_error=delivery.last_error,
            heartbeat=self._beat_from_handler,
        )

    @property
    def lost(self) -> bool:
        return self.context.lost

    async def extend(self) -> None:
        """Renew both leases. Raises what the server refused; then they are lost."""
        try:
            await self.delivery.extend()
            if self.grant is not None:
                await self.grant.extend()
        except FailedPrecondition:
            self.lose()
            raise

    def lose(self) -> None:
        """It is no longer ours: a handler that awaits is cancelled, one that blocks can look."""
        self.context.lost = True
        if self.running is not None:
            self.running.cancel()

    def _beat_from_handler(self) -> None:
        asyncio.run_coroutine_threadsafe(self.extend(), self._loop).result()


class DeliveryHeartbeats:
    """Renews the leases of everything held, also of what still waits for its turn."""

    def __init__(self, *, lease_ms: int) -> None:
        self._every_s = lease_ms / 3000
        self._leased: set[LeasedDelivery] = set()

    def __len__(self) -> int:
        return len(self._leased)

    def add(self, leased: LeasedDelivery) -> None:
        self._leased.add(leased)

    def drop(self, leased: LeasedDelivery) -> None:
        self._leased.discard(leased)

    async def run(self) -> None:
        """Until cancelled, on the client's loop."""
        while True:
            await asyncio.sleep(self._every_s)
            slots = asyncio.Semaphore(_EXTENDING_MAX)
            await asyncio.gather(*[self._extend(leased, slots) for leased in list(self._leased)])

    async def _extend(self, leased: LeasedDelivery, slots: asyncio.Semaphore) -> None:
        async with slots:
            if leased not in self._leased or leased.lost:
                return
            try:
                await leased.extend()
            except FailedPrecondition as refused:
                if leased in self._leased:
                    logger.warning("%s: %s", describe(leased.delivery, "lost its lease"), refused)
            except DriftQError as failure:
                logger.warning("%s: %s", describe(leased.delivery, "could not renew its lease"), failure)

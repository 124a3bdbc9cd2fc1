"""A broker for tests: in this process, in memory, with a clock that you move."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Self

from driftq.client import AsyncClient, Client
from driftq.client.consuming.subscription import LEASE_MS
from driftq.client.job_calls import AsyncJobCalls
from driftq.client.loop_thread import LoopThread
from driftq.embedded.opening import EmbeddedConnector
from driftq.housekeeping.in_memory import HousekeeperThread
from driftq.log.memory import MemoryFolder
from driftq.model.options.events import EventOptions
from driftq.model.options.limits import Limits
from driftq.model.wire.jobs import ClaimedJob, JobView
from driftq.server.broker import BrokerOptions
from driftq.server.routing.service import Router
from driftq.testing.clock import VirtualClock
from driftq.testing.turns import VirtualTurns


class _VirtualJobCalls(AsyncJobCalls):
    """A call may wait on a clock that the test does not move, so the real one ends it as well."""

    async def claim(
        self,
        queues: Sequence[str],
        *,
        owner: str,
        lease_ms: int = LEASE_MS,
        limit: int = 1,
        wait_ms: int = 0,
    ) -> list[ClaimedJob]:
        claiming = super().claim(queues, owner=owner, lease_ms=lease_ms, limit=limit, wait_ms=wait_ms)
        if not wait_ms:
            return await claiming
        try:
            return await asyncio.wait_for(claiming, wait_ms / 1000)
        except TimeoutError:
            return []

    async def _get(self, job_id: str, wait_ms: int) -> JobView:
        try:
            return await asyncio.wait_for(super()._get(job_id, wait_ms), wait_ms / 1000 if wait_ms else None)
        except TimeoutError:
            return await super()._get(job_id, 0)


class _VirtualClient(AsyncClient):
    def __init__(self, *, connector: EmbeddedConnector) -> None:
        super().__init__(connector=connector)
        self.jobs = _VirtualJobCalls(self._calls)


class VirtualBroker(Client):
    """All calls of a client; leases end, retries become due and keys expire only through `advance`.

    Only waiting calls use the real clock: a call with `wait_ms` returns when that much time has passed on
    either.
    """

    clock: VirtualClock
    _connector: EmbeddedConnector
    _turns: VirtualTurns

    @classmethod
    def start(cls, *, limits: Limits | None = None, router: Router | None = None) -> Self:
        """An empty broker; `close` it, or use `with`."""
        thread = LoopThread("driftq-testing")
        options = BrokerOptions(
            limits=limits or Limits(),
            durable=False,
            router=router,
            new_housekeeper=HousekeeperThread,
            events=EventOptions().in_memory(),
        )
        clock = VirtualClock()

        async def begin() -> tuple[EmbeddedConnector, VirtualTurns]:
            turns = VirtualTurns(asyncio.get_running_loop(), clock)
            return EmbeddedConnector(MemoryFolder(), options, clock=clock, turns=turns), turns

        connector, turns = thread.run(begin())
        broker = cls.over(_VirtualClient(connector=connector), thread)
        broker.clock = clock
        broker._connector = connector
        broker._turns = turns
        return broker

    def now(self) -> datetime:
        """The broker's time, which deadlines and `run_at` are compared with."""
        return self._connector.now()

    def advance(self, *, ms: int) -> None:
        """Let `ms` milliseconds pass for the broker; returns when everything due has happened."""
        self._thread.run(self._turns.advance(self._connector.broker.engine, ms=ms))

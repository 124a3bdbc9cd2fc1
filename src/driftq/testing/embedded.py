"""A broker for tests: in this process, in memory, with a clock that you move."""

from __future__ import annotations

import asyncio
from typing import Self

from driftq.client import AsyncClient, Client
from driftq.client.loop_thread import LoopThread
from driftq.core.limits import Limits
from driftq.embedded.opening import EmbeddedConnector
from driftq.log.memory import MemoryFolder
from driftq.server.broker import BrokerOptions
from driftq.server.routing import Router
from driftq.testing.clock import VirtualClock
from driftq.testing.turns import VirtualTurns


class VirtualBroker(Client):
    """All calls of a client; leases end, retries come and keys expire when `advance` says so."""

    clock: VirtualClock
    _connector: EmbeddedConnector
    _turns: VirtualTurns

    @classmethod
    def start(cls, *, limits: Limits | None = None, router: Router | None = None) -> Self:
        """A broker with nothing in it; `close` it, or use `with`."""
        thread = LoopThread("driftq-testing")
        options = BrokerOptions(limits=limits or Limits(), durable=False, router=router)
        clock = VirtualClock()

        async def begin() -> tuple[EmbeddedConnector, VirtualTurns]:
            turns = VirtualTurns(asyncio.get_running_loop(), clock)
            return EmbeddedConnector(MemoryFolder(), options, clock=clock, turns=turns), turns

        connector, turns = thread.run(begin())
        broker = cls.over(AsyncClient(connector=connector), thread)
        broker.clock = clock
        broker._connector = connector
        broker._turns = turns
        return broker

    def advance(self, *, ms: int) -> None:
        """Let so much time pass for the broker; returns when all that was due has happened."""
        self._thread.run(self._turns.advance(self._connector.broker.engine, ms=ms))

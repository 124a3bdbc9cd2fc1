"""The engine's turns on a real loop, with a clock that is moved by hand."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable
from itertools import count

from driftq.core.state import State
from driftq.server.engine import Engine
from driftq.server.requests import ReadRequest
from driftq.testing.clock import VirtualClock


class _Due:
    """A call at an instant; it can be cancelled until then."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class VirtualTurns:
    """Takes the place of `driftq.server.io_threads.AsyncioLoop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: VirtualClock) -> None:
        self._loop = loop
        self._clock = clock
        self._due: list[tuple[int, int, _Due]] = []
        self._serial = count()

    def soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def at(self, when: int, call: Callable[[], None]) -> _Due:
        due = _Due(call)
        heapq.heappush(self._due, (when, next(self._serial), due))
        return due

    async def advance(self, engine: Engine, *, ms: int) -> None:
        """Let `ms` milliseconds pass; returns when everything due has happened and is durable."""
        end = self._clock.now() + ms
        while self._due and self._due[0][0] <= end:
            when, _, due = heapq.heappop(self._due)
            if due.call is not None:
                self._clock.advance_to(when)
                due.call()
                await self._settle(engine)
        self._clock.advance_to(end)
        engine.want_turn()
        await self._settle(engine)

    async def _settle(self, engine: Engine) -> None:
        """A read is answered at the beginning of a turn: at the second, the first one's turn is durable."""
        for _ in range(2):
            answered: asyncio.Future[None] = self._loop.create_future()
            engine.read(ReadRequest(_nothing, answered.set_result))
            await answered


def _nothing(_: State) -> None:
    """Nothing is asked but when."""

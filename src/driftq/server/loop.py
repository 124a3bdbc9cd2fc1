"""The engine's loop on asyncio."""

import asyncio
from collections.abc import Callable

from driftq.server.ports import Alarm, Clock


class AsyncioLoop:
    """The engine's view of an asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock

    def soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def at(self, when: int, call: Callable[[], None]) -> Alarm:
        return self._loop.call_later(max(0, when - self._clock.now()) / 1000, call)

"""Readers that wait for a topic to get messages: woken by the commit that stores one, never by a timer.

The stage decides nothing. After all others it looks whether a topic that somebody waits for has moved in this
turn. Who waited then reads the state, which is answered when that turn's records are durable. A turn costs a
look at each topic that is waited for, and nothing where there is none.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from driftq.errors import DriftQError

if TYPE_CHECKING:
    from driftq.core.state import State
    from driftq.server.requests import EngineRequest
    from driftq.server.turn import Turn


class TopicWaits:
    """A stage that has no requests."""

    handles: ClassVar[tuple[type[EngineRequest], ...]] = ()
    pending = False
    next_at = None

    def __init__(self) -> None:
        self._waiting: dict[str, dict[asyncio.Future[None], int]] = {}
        """By topic, with the offset that its next message had."""
        self._stopped = False

    def submit(self, request: object) -> None:
        raise TypeError(f"no stage waits for {request!r}")

    async def wait(self, state: State, name: str, *, next_offset: int, within_s: float) -> bool:
        """Wait until the topic may have moved on from there; False when nobody should wait any longer."""
        if self._stopped or within_s <= 0:
            return False
        if _next_offset(state, name) != next_offset:
            return True
        moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(name, {})
        waiting[moved] = next_offset
        try:
            await asyncio.wait_for(moved, within_s)
        except TimeoutError:
            return False
        finally:
            waiting.pop(moved, None)
            if not waiting and self._waiting.get(name) is waiting:
                del self._waiting[name]
        return not self._stopped

    def decide(self, turn: Turn) -> None:
        if not self._waiting:
            return
        for name, waiting in self._waiting.items():
            at = _next_offset(turn.state, name)
            for moved, seen in waiting.items():
                if at != seen and not moved.done():
                    moved.set_result(None)

    def reject(self, error: DriftQError) -> None:
        """Writing has stopped: who waits reads once more, and is told."""
        self.stop()

    def stop(self) -> None:
        """End every wait, and begin none."""
        self._stopped = True
        for waiting in self._waiting.values():
            for moved in waiting:
                if not moved.done():
                    moved.set_result(None)


def _next_offset(state: State, name: str) -> int | None:
    topic = state.topics.get(name)
    return None if topic is None else topic.next_offset

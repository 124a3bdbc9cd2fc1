"""A server on a disk that fails, with its crashes and restarts; only a live server answers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from driftq.core.state import State
from driftq.server.requests import ReadRequest
from driftq.testing.clock import VirtualClock
from driftq.testing.disk import PowerCut, SimFolder
from driftq.testing.machine import MachineOptions, boot
from driftq.testing.wall_history import WallHistory

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
_WRONG_BY_MS = (0, 0, 0, 0, -700, 90_000, HOUR_MS, DAY_MS, -HOUR_MS, -DAY_MS)
"""How wrong the machine's clock may be when a server starts."""


class WorkLife:
    """One server after the other in the same folder. A request to a dead one is never answered."""

    def __init__(self, random: Random, options: MachineOptions, *, say: Callable[[str], None]) -> None:
        self.random = random
        self.options = options
        self._life = 0
        self._say = say
        self.wall = WallHistory()
        self._start(SimFolder(random), VirtualClock())
        self._true_ahead = 0
        """How far the true time, which no clock need show, is ahead of engine time."""

    def open_streams(self) -> None:
        """Consumers come back after a restart."""

    @property
    def now(self) -> int:
        return self.machine.clock.now()

    @property
    def true_time(self) -> int:
        return self.now + self._true_ahead

    def _start(self, folder: SimFolder, clock: VirtualClock) -> None:
        self.machine = boot(folder, self.options, clock=clock, random=self.random, say=self._say)
        self.wall.started(self.now, clock.machine_wall())

    def say(self, text: str) -> None:
        self._say(f"{self.now % 10_000_000:>8} {text}")

    # The server's life

    def run_for(self, ms: int) -> None:
        try:
            self.machine.loop.run_for(ms)
        except PowerCut:
            self.crash(power=True)

    def crash(self, *, power: bool, away_ms: int = 0) -> None:
        """Unanswered requests stay open; workers keep the deliveries that they hold.

        The clock may be wrong when the server starts again, but not after it was away for long.
        """
        self.say("POWER CUT" if power else "KILLED")
        folder = self.machine.folder
        self._life += 1
        true = self.true_time + (away_ms or self.random.choice((0, 0, 40, 1_500)))
        wrong_by = 0 if away_ms else self.random.choice(_WRONG_BY_MS)
        self._start(folder.crash() if power else folder.process_kill(), VirtualClock(true + wrong_by))
        self._true_ahead = true - self.now
        self.machine.compare_with_log()
        self.open_streams()

    def set_wall(self, *, by_ms: int) -> None:
        """Set the machine's clock while the server runs."""
        self.say(f"the wall clock is set by {by_ms} ms")
        self.machine.clock.set_wall(by_ms=by_ms)
        self.wall.stepped(self.now, by_ms=by_ms)

    def heard(self, story: str, take: Callable[[Any], None]) -> Callable[[Any], None]:
        """A reply that counts only while the server that got the request lives."""
        life = self._life

        def reply(answer: Any) -> None:
            self.say(f"  {story}: {answer}")
            if life == self._life:
                take(answer)

        return reply

    def look(self, query: Callable[[State], Any]) -> Any:
        """An answer from durable state, however long it takes."""
        found: list[Any] = []
        self.machine.engine.read(ReadRequest(query, found.append))
        for _ in range(100):
            if found:
                break
            self.run_for(50)
        return found[0]

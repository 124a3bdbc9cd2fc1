"""A server on a disk that fails, with its deaths and restarts, and clients who hear only from the living."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from driftq.core.state import State
from driftq.server.requests import ReadRequest
from driftq.testing.clock import VirtualClock
from driftq.testing.disk import PowerCut, SimFolder
from driftq.testing.machine import MachineOptions, boot


class WorkLife:
    """One server after the other in the same folder. What a client asked of a dead one is never answered."""

    def __init__(self, random: Random, options: MachineOptions, *, say: Callable[[str], None]) -> None:
        self.random = random
        self.options = options
        self._life = 0
        self._say = say
        self.machine = boot(SimFolder(random), options, clock=VirtualClock(), random=random, say=say)

    def open_streams(self) -> None:
        """Consumers come back after a restart."""

    @property
    def now(self) -> int:
        return self.machine.clock.now()

    def say(self, text: str) -> None:
        self._say(f"{self.now % 10_000_000:>8} {text}")

    # The server's life

    def run_for(self, ms: int) -> None:
        try:
            self.machine.loop.run_for(ms)
        except PowerCut:
            self.crash(power=True)

    def crash(self, *, power: bool) -> None:
        """What was asked and not answered stays open; workers keep what they hold."""
        self.say("POWER CUT" if power else "KILLED")
        folder = self.machine.folder
        self._life += 1
        clock = VirtualClock(self.now + self.random.choice((0, 0, 40, 1_500, -700)))
        self.machine = boot(
            folder.crash() if power else folder.process_kill(),
            self.options,
            clock=clock,
            random=self.random,
            say=self._say,
        )
        self.machine.compare_with_log()
        self.open_streams()

    def heard(self, story: str, take: Callable[[Any], None]) -> Callable[[Any], None]:
        """A reply that only the life of the server which it was asked of can give."""
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

"""The housekeeper in virtual time, on the simulated disk: it takes a while, and is killed now and then."""

from __future__ import annotations

from random import Random

from driftq.errors import LogError
from driftq.housekeeping.process import Done
from driftq.housekeeping.round import RoundOptions, run_round
from driftq.model.options.limits import Limits
from driftq.testing.clock import VirtualClock
from driftq.testing.disk import ProcessKilled, SimFolder
from driftq.testing.loop import SimLoop

_ROUND_MS_MAX = 300


class SimHousekeeper:
    """Does a round at once, at a time and with an end that come from the seed."""

    def __init__(
        self, folder: SimFolder, limits: Limits, *, loop: SimLoop, clock: VirtualClock, random: Random
    ) -> None:
        self._folder = folder
        self._limits = limits
        self._loop = loop
        self._clock = clock
        self._random = random
        self.kills = 0.2
        self.rounds = 0
        self._options = RoundOptions(small_bytes=random.choice((0, 4_096)))

    def wait_idle(self) -> None:
        """Nothing is left of an earlier process: it ran on another folder."""

    def run(self, upto: int, done: Done) -> None:
        self._after(lambda: self._work(upto, done))

    def _work(self, upto: int, done: Done) -> None:
        trouble: str | None = None
        if self._random.random() < self.kills:
            self._folder.kill_after(self._random.randint(0, 14))
        try:
            run_round(self._folder, limits=self._limits, upto=upto, options=self._options)
            self.rounds += 1
        except ProcessKilled:
            trouble = "killed"
        except (OSError, LogError) as error:
            trouble = str(error)
        finally:
            self._folder.kill_after(None)
        self._after(lambda: done(trouble))

    def _after(self, call: object) -> None:
        self._loop.at(self._clock.now() + self._random.randint(0, _ROUND_MS_MAX), call)  # type: ignore[arg-type]

    def stop(self) -> None:
        """A round that is under way is over at once, or not yet begun."""

"""The server's two times.

    engine time   the wall clock at start plus what has passed since, never behind the log
    wall time     the machine's wall clock as it is now, for the instants that users give

Leases, backoff and TTLs run in engine time, so setting the clock ends none of them early. A deadline or a
`run_at` refers to the machine's clock, so it is compared with wall time: a log that was once written with the
clock a day ahead expires no deadline. A forward jump of the wall clock does not count at once, see
`WallWatch`.
"""

import logging
import time

from driftq.server.ports import Clock

STEP_MS = 60_000
"""A forward step of more than this, or a log that is further ahead, is reported as an error."""
HOLD_MS = 60_000
"""A forward step counts after it has lasted for this long."""

logger = logging.getLogger("driftq.clock")


class WallWatch:
    """Readings of a wall clock, in which a forward step of more than a minute counts a minute late.

    Until then a reading is the time without the step; if the clock is set back meanwhile, the step never
    counts. A backward step counts at once: it expires nothing. The clock is compared with a
    steady one at each reading, so a suspended machine looks like a forward step.
    """

    __slots__ = ("_lead", "_step", "_stepped_at")

    def __init__(self, wall: int, steady: int) -> None:
        self._lead = wall - steady
        self._step: int | None = None
        """The size of a forward step that does not count yet."""
        self._stepped_at = 0

    def read(self, wall: int, steady: int) -> int:
        """The time to use, given the readings of both clocks."""
        lead = wall - steady
        gain = lead - self._lead
        if self._step is None and -STEP_MS <= gain <= STEP_MS:
            self._lead = lead
            return wall
        if gain <= STEP_MS:
            self._set_back(gain)
            self._lead, self._step = lead, None
        elif self._step is None or lead - self._step > STEP_MS:
            self._step, self._stepped_at = lead, steady
            logger.error(
                "the wall clock went forward by %d s: it moves no deadline and no run_at for %d s",
                gain // 1_000,
                HOLD_MS // 1_000,
            )
        elif steady - self._stepped_at >= HOLD_MS:
            self._lead, self._step = lead, None
            logger.warning("the wall clock's step of %d s counts from now on", gain // 1_000)
        else:
            self._step = lead
        return steady + self._lead

    def _set_back(self, gain: int) -> None:
        if self._step is not None:
            logger.warning("the wall clock was set back: its step has moved nothing")
        elif gain < -STEP_MS:
            logger.warning(
                "the wall clock went back by %d s: deadlines and run_at go by it, leases and retries do not",
                -gain // 1_000,
            )


class SystemClock:
    """The machine's clocks. Engine time reads the wall clock once: later jumps do not affect it."""

    def __init__(self) -> None:
        self._began = time.monotonic_ns()
        self._start_ms = time.time_ns() // 1_000_000
        self._watch = WallWatch(self._start_ms, 0)

    def now(self) -> int:
        return self._start_ms + (time.monotonic_ns() - self._began) // 1_000_000

    def wall(self) -> int:
        return self._watch.read(time.time_ns() // 1_000_000, (time.monotonic_ns() - self._began) // 1_000_000)

    def not_below(self, at: int) -> None:
        behind = at - self.now()
        if behind > 0:
            self._start_ms += behind


def log_ahead_ms(clock: Clock) -> int:
    """How far engine time, and the log with it, is ahead of the wall clock; 0 up to a minute."""
    ahead = clock.now() - clock.wall()
    return ahead if ahead > STEP_MS else 0


def report_log_ahead(clock: Clock) -> None:
    """An ERROR, at start, when the log is further ahead than clocks usually are."""
    ahead_ms = log_ahead_ms(clock)
    if ahead_ms:
        logger.error("%s", log_ahead_text(ahead_ms))


def log_ahead_text(ahead_ms: int) -> str:
    """What that means, in words for logs and replies."""
    return (
        f"the log is {ahead_ms // 1_000} s ahead of this machine's clock: it was ahead once, or is behind; "
        "deadlines and run_at go by the machine's clock, leases, retries and stored times by the log's"
    )

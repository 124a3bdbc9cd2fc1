"""Judges waits for the end of a job: answered with the end and not before it, and batches: stored whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from driftq.core.jobs.table import JobState
from driftq.testing.checkers import require

LATE_MS = 50
"""After the end of a job."""
SLOW_MS = 2_000
"""After a request or the end of its time, which may have to wait for commits of others."""
_ENDED = ("succeeded", "dead", None)


@dataclass(slots=True, eq=False)
class AwaitedEnd:
    """A request that waits."""

    offset: int
    asked_at: int
    until: int
    answered: bool = False


class EndChecker:
    """Observes those who wait for the ends of jobs in one life of the server after the other."""

    def __init__(self) -> None:
        self._open: list[AwaitedEnd] = []
        self._ended_at: dict[int, int] = {}
        """When the end of a job was confirmed to its worker, in this life."""
        self.told_ended: dict[int, str] = {}
        """The final states that were told."""

    def asked(self, offset: int, *, until: int, now: int) -> AwaitedEnd:
        wait = AwaitedEnd(offset, now, until)
        self._open.append(wait)
        return wait

    def answered(self, wait: AwaitedEnd, state: str | None, *, now: int) -> None:
        """The durable state when the answer came."""
        wait.answered = True
        name = f"job {wait.offset}"
        if now < wait.until:
            require(state in _ENDED, "J16", f"{name} is {state} at {now}, awaited until {wait.until}")
        if state in _ENDED and state is not None:
            self.told_ended[wait.offset] = state
        self._judge_delay(wait, now=now)

    def ended(self, offset: int, *, now: int) -> None:
        """A worker was told that the job is done."""
        self._ended_at.setdefault(offset, now)

    def restarted(self, state_of: Callable[[int], JobState | None]) -> None:
        """Nobody answers those who wait at a dead server, and an end that was told is still the end."""
        for offset, told in self.told_ended.items():
            state = state_of(offset)
            name = None if state is None else state.name.lower()
            require(name in (told, None), "J16", f"job {offset} was told to be {told}, and is {name}")
        self._open = []
        self._ended_at = {}

    def judge(self, *, now: int) -> None:
        """Whoever waits for a job that has ended must have heard of it."""
        self._open = [wait for wait in self._open if not wait.answered]
        for wait in self._open:
            self._judge_delay(wait, now=now)
            told = f"job {wait.offset} was awaited until {wait.until}, it is {now}"
            require(now - wait.until <= SLOW_MS, "J16", told)

    def _judge_delay(self, wait: AwaitedEnd, *, now: int) -> None:
        """How long the job has ended by now, if it has."""
        ended_at = self._ended_at.get(wait.offset)
        if ended_at is None:
            return
        in_time = now - ended_at <= LATE_MS if ended_at >= wait.asked_at else now - wait.asked_at <= SLOW_MS
        require(in_time, "J16", f"job {wait.offset} ended at {ended_at}, and it is {now}")


def judge_batch(keys: list[str], stored: list[bool]) -> None:
    """A batch is in the log as a whole or not at all."""
    require(len(set(stored)) <= 1, "J17", f"of the batch {keys} only some are stored: {stored}")

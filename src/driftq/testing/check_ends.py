"""Judges waits for the end of a job: answered with the end and not before it, and batches: stored whole."""

from __future__ import annotations

from dataclasses import dataclass

from driftq.testing.checkers import require

LATE_MS = 50
_ENDED = ("succeeded", "dead", None)


@dataclass(slots=True, eq=False)
class Wait:
    """A request that waits."""

    offset: int
    until: int
    answered: bool = False


class EndChecker:
    """Observes those who wait for the ends of jobs in one life of the server after the other."""

    def __init__(self) -> None:
        self._open: list[Wait] = []
        self._ended_at: dict[int, int] = {}
        """When the end of a job was confirmed to its worker, in this life."""
        self.told_ended: dict[int, str] = {}
        """The final states that were told."""

    def asked(self, offset: int, *, until: int) -> Wait:
        wait = Wait(offset, until)
        self._open.append(wait)
        return wait

    def answered(self, wait: Wait, state: str | None, *, now: int) -> None:
        """The durable state when the answer came."""
        wait.answered = True
        name = f"job {wait.offset}"
        if now < wait.until:
            require(state in _ENDED, "J16", f"{name} is {state} at {now}, awaited until {wait.until}")
        if state in _ENDED and state is not None:
            self.told_ended[wait.offset] = state
        ended_at = self._ended_at.get(wait.offset)
        if ended_at is not None:
            require(now - ended_at <= LATE_MS, "J16", f"{name} ended at {ended_at}, and it is told at {now}")

    def ended(self, offset: int, *, now: int) -> None:
        """A worker was told that the job is done."""
        self._ended_at.setdefault(offset, now)

    def restarted(self) -> None:
        """Nobody answers those who wait at a dead server."""
        self._open = []
        self._ended_at = {}

    def judge(self, *, now: int) -> None:
        """Whoever waits for a job that has ended must have heard of it."""
        self._open = [wait for wait in self._open if not wait.answered]
        for wait in self._open:
            ended_at = self._ended_at.get(wait.offset, now)
            name = f"job {wait.offset}"
            require(now - ended_at <= LATE_MS, "J16", f"{name} ended at {ended_at}, and nobody is told")
            require(now - wait.until <= LATE_MS, "J16", f"{name} was awaited until {wait.until}, it is {now}")

    def stood(self, states: dict[int, str]) -> None:
        """At the end of the run: an end that was told is the end."""
        for offset, told in self.told_ended.items():
            found = states.get(offset, told)
            require(found == told, "J16", f"job {offset} was told to be {told}, and is {found}")


def judge_batch(keys: list[str], stored: list[bool]) -> None:
    """A batch is in the log as a whole or not at all."""
    require(len(set(stored)) <= 1, "J17", f"of the batch {keys} only some are stored: {stored}")

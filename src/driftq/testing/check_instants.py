"""Judges the instants that users give: deadlines and `run_at` follow the wall clock and are never early."""

from __future__ import annotations

from dataclasses import dataclass

from driftq.core.jobs.table import job_offset
from driftq.errors import InvalidArgument
from driftq.model import DeadLetterFacts
from driftq.model.time import parse_rfc3339
from driftq.model.wire.jobs import EnqueuedJob
from driftq.server.jobs.requests import JobsGranted
from driftq.testing.checkers import require
from driftq.testing.wall_history import WallHistory


@dataclass(slots=True)
class _Scheduled:
    run_at: int
    life: int
    """Of the server that confirmed it: a later one may have granted it unseen."""
    granted: bool = False
    disturbed: bool = False
    """Its cancellation was requested."""


class InstantChecker:
    """Observes requests and their times, in engine time."""

    def __init__(self, wall: WallHistory) -> None:
        self._wall = wall
        self._jobs: dict[int, _Scheduled] = {}

    def produced(self, deadline: int, outcome: object, *, asked_at: int, now: int) -> None:
        """The answer to a message with a deadline."""
        if isinstance(outcome, InvalidArgument):
            latest = self._wall.highest(asked_at, now)
            require(
                deadline <= latest, "P2", f"a deadline of {deadline} was refused, the clock said {latest}"
            )
        elif isinstance(outcome, tuple):
            earliest = self._wall.lowest(asked_at, now)
            require(earliest < deadline, "P2", f"a deadline of {deadline} was taken at {earliest}")

    def dead_lettered(self, deadline: int | None, facts: DeadLetterFacts) -> None:
        """A dead letter was read."""
        if facts.reason == "deadline_exceeded" and deadline is not None:
            at = parse_rfc3339(facts.at)
            latest = self._wall.highest(at, at)
            require(deadline <= latest, "P3", f"given up at {latest}, its deadline was {deadline}: {facts}")

    def enqueued(self, job: EnqueuedJob, run_at: int, *, life: int, asked_at: int, now: int) -> None:
        """A new job with a `run_at` was confirmed. One that was due stays so, wherever the clock goes."""
        offset = job_offset(job.job_id)
        assert offset is not None
        earliest, latest = self._wall.lowest(asked_at, now), self._wall.highest(asked_at, now)
        if job.state == "scheduled":
            require(earliest < run_at, "J11", f"{job} waits for {run_at}, the clock said {earliest}")
            self._jobs[offset] = _Scheduled(run_at, life)
        else:
            require(run_at <= latest, "J11", f"{job} is for {run_at}, the clock said {latest}")

    def granted(self, granted: JobsGranted) -> None:
        record = granted.record
        latest = self._wall.highest(record.at, record.at)
        for offset, attempt in zip(record.offsets, granted.attempts, strict=True):
            job = self._jobs.get(offset)
            if job is not None:
                job.granted = True
                early = attempt == 1 and job.run_at > latest
                require(not early, "J11", f"job {offset} ran at {latest}, its run_at was {job.run_at}")

    def cancelling(self, offset: int) -> None:
        if offset in self._jobs:
            self._jobs[offset].disturbed = True

    def waiting(self, life: int) -> list[int]:
        """Jobs that certainly wait for their first run."""
        return [
            offset
            for offset, job in self._jobs.items()
            if job.life == life and not job.granted and not job.disturbed
        ]

    def none_was_ready(self, offsets: list[int], *, asked_at: int, now: int) -> None:
        """A claim that was sent while these waited returned empty."""
        earliest = self._wall.lowest(asked_at, now)
        for offset in offsets:
            job = self._jobs[offset]
            missed = not job.granted and not job.disturbed and job.run_at <= earliest
            require(not missed, "J11", f"job {offset} was due at {job.run_at} and not given at {earliest}")

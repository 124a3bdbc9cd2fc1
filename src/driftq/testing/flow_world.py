"""Clients of limited and paused queues, of dependent jobs and of schedules, observed by judges."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from driftq.core.jobs.flow_records import QueueLimited, QueuePaused
from driftq.core.jobs.limits import QueueLimits
from driftq.core.jobs.table import job_offset
from driftq.core.jobs.transitions import Settlement
from driftq.core.schedules.records import ScheduleTerms
from driftq.core.schedules.table import ScheduleTable
from driftq.errors import DriftQError
from driftq.model.job import JobRequest
from driftq.server.jobs.requests import (
    ClaimRequest,
    EnqueueRequest,
    JobAction,
    JobsGranted,
    SettleRequest,
    cancel,
    heartbeat,
)
from driftq.server.requests import ReadRequest
from driftq.server.schedules.requests import PauseScheduleRequest, RemoveScheduleRequest, SetScheduleRequest
from driftq.storage.entry import decode_job
from driftq.testing.check_flow import FlowChecker, FlowJob
from driftq.testing.check_jobs import JobChecker
from driftq.testing.check_schedules import PeriodicSchedule, ScheduleChecker
from driftq.testing.machine import MachineOptions
from driftq.testing.work_life import WorkLife

SCHEDULED = "scheduled"
"""The queue of the jobs of schedules."""


class FlowWorld(WorkLife):
    """The actions of clients, and what workers hold."""

    def __init__(self, random: Random, options: MachineOptions, *, say: Callable[[str], None]) -> None:
        super().__init__(random, options, say=say)
        self.jobs = JobChecker()
        self.flow = FlowChecker()
        self.schedules = ScheduleChecker()
        self.held: list[tuple[int, int]] = []
        self.latest_wall = self.machine.clock.machine_wall()
        """The latest time that any clock has shown."""
        self._pauses: dict[str, int] = {}
        self._cancelled: set[int] = set()

    def run_for(self, ms: int) -> None:
        self.latest_wall = max(self.latest_wall, self.machine.clock.machine_wall() + ms)
        super().run_for(ms)
        self.latest_wall = max(self.latest_wall, self.machine.clock.machine_wall())

    def set_wall(self, *, by_ms: int) -> None:
        super().set_wall(by_ms=by_ms)
        self.latest_wall = max(self.latest_wall, self.machine.clock.machine_wall())

    def crash(self, *, power: bool, away_ms: int = 0) -> None:
        super().crash(power=power, away_ms=away_ms)
        self.latest_wall = max(self.latest_wall, self.machine.clock.machine_wall())

    # Jobs

    def enqueue(self, key: str, job: FlowJob, *, priority: int, max_retries: int, delay_ms: int) -> None:
        request = JobRequest(
            queue=job.queue,
            task="send",
            payload=msgspec.Raw(b"null"),
            priority=priority,
            run_at=self.machine.clock.machine_wall() + delay_ms if delay_ms else None,
            idempotency_key=key,
            max_retries=max_retries,
            limit_key=job.key,
            after=[*job.after],
        )

        def take(answer: Any) -> None:
            if isinstance(answer, list) and not isinstance(answer[0], DriftQError):
                offset = job_offset(answer[0].job_id)
                assert offset is not None
                self.jobs.enqueued(key, offset, max_retries=max_retries)
                self.flow.enqueued(offset, job)

        self.machine.engine.submit(EnqueueRequest([request], self.heard(f"enqueue {key} {job}", take)))

    def claim(self, queues: list[str], *, limit: int, lease_ms: int, wait_ms: int) -> None:
        def take(answer: Any) -> None:
            if isinstance(answer, JobsGranted):
                self.jobs.granted(answer)
                self.flow.granted(answer)
                for offset in self._cancelled.intersection(answer.record.offsets):
                    self.jobs.loosened(offset, for_good=True)  # The cancellation may have met its claim.
                self._look_at_fires(answer.record.offsets)
                first = answer.record.first_token
                self.held += [(offset, first + number) for number, offset in enumerate(answer.record.offsets)]

        request = ClaimRequest(queues, "w", lease_ms, limit, self.now + wait_ms, self.heard("claim", take))
        self.machine.engine.submit(request)

    def _look_at_fires(self, offsets: list[int]) -> None:
        def read(entries: Any) -> None:
            if isinstance(entries, list):
                for offset, entry in zip(offsets, entries, strict=True):
                    key = decode_job(entry).idempotency_key
                    if key.startswith("schedule:"):
                        self.schedules.fired(key, offset, wall=self.latest_wall)

        self.machine.engine.stages.job_reader.entries(offsets, read)

    def complete(self, offset: int, token: int) -> None:
        asked_at = self.now
        self.jobs.completing(offset, token)
        self.flow.ending(offset, completed=True)

        def take(answer: Any) -> None:
            outcome = answer if isinstance(answer, DriftQError) else answer[0]
            self.jobs.completed(offset, token, outcome, asked_at=asked_at, now=self.now)

        reply = self.heard(f"complete {offset} {token}", take)
        self.machine.engine.submit(SettleRequest([Settlement(offset, token)], reply))

    def fail(self, offset: int, token: int, *, retryable: bool) -> None:
        self.jobs.loosened(offset, for_good=not retryable)
        self.flow.ending(offset, completed=False)
        settlement = Settlement(offset, token, error="boom", retryable=retryable)
        reply = self.heard(f"fail {offset} {token}", lambda _: None)
        self.machine.engine.submit(SettleRequest([settlement], reply))

    def cancel(self, offset: int) -> None:
        if offset in self.jobs.jobs:
            self.jobs.loosened(offset, for_good=True)
        self.flow.cancelling(offset)
        self._cancelled.add(offset)
        self.machine.engine.submit(cancel(offset, self.heard(f"cancel {offset}", lambda _: None)))

    def heartbeat(self, offset: int, token: int, lease_ms: int) -> None:
        until = self.now + lease_ms
        beat = self.jobs.beating(offset, until=until)
        self.flow.extended(offset)

        def take(answer: Any) -> None:
            if answer is None:
                self.jobs.extended(offset, token, beat, until=until)

        reply = self.heard(f"heartbeat {offset} {token}", take)
        self.machine.engine.submit(heartbeat(offset, token=token, lease_ms=lease_ms, reply=reply))

    # Queues

    def limit(self, queue: str, limits: QueueLimits) -> None:
        def take(answer: Any) -> None:
            if answer is None:
                self.flow.limited(queue, limits)

        self._act(
            lambda now: QueueLimited(at=now, queue=queue, limits=limits), f"limit {queue} {limits}", take
        )

    def pause(self, queue: str) -> None:
        def take(answer: Any) -> None:
            if answer is None and self._pauses.get(queue) == mine:
                self.flow.pause_confirmed(queue, self.now)

        mine = self._note_switch(queue)
        self._act(lambda now: QueuePaused(at=now, queue=queue, paused=True), f"pause {queue}", take)

    def resume(self, queue: str) -> None:
        self._note_switch(queue)
        self.flow.resuming(queue)
        self._act(
            lambda now: QueuePaused(at=now, queue=queue, paused=False), f"resume {queue}", lambda _: None
        )

    def _note_switch(self, queue: str) -> int:
        """The number of this pause or resume: only the latest one's answer counts."""
        self._pauses[queue] = self._pauses.get(queue, 0) + 1
        return self._pauses[queue]

    def _act(self, decide: Callable[[int], Any], story: str, take: Callable[[Any], None]) -> None:
        self.machine.engine.submit(JobAction(lambda jobs, now, wall: decide(now), self.heard(story, take)))

    # Schedules

    def set_schedule(self, schedule: PeriodicSchedule) -> None:
        known = self.schedules.schedules.setdefault(schedule.name, schedule)
        terms = ScheduleTerms(
            name=schedule.name,
            cron=schedule.cron,
            timezone="UTC",
            queue=SCHEDULED,
            task="tick",
            payload="null",
            missed=schedule.missed,
            priority=5,
            max_retries=2,
        )

        def take(answer: Any) -> None:
            if isinstance(answer, int) and known.since is None:
                self.machine.engine.read(ReadRequest(lambda state: state.schedules, self.heard("look", note)))

        def note(found: Any) -> None:
            made = found.schedules.get(schedule.name) if isinstance(found, ScheduleTable) else None
            if made is not None and made.fired == 0 and made.last_at < 0:
                known.since = made.next_at

        self.machine.engine.submit(SetScheduleRequest(terms, True, self.heard(f"set {schedule.name}", take)))

    def disturb_schedule(self, name: str, *, remove: bool) -> None:
        """Pause and resume it, or remove it: what is due meanwhile may be left out."""
        self.schedules.schedules[name].undisturbed = False
        story = self.heard(f"disturb {name}", lambda _: None)
        if remove:
            self.machine.engine.submit(RemoveScheduleRequest(name, story))
            return
        self.machine.engine.submit(PauseScheduleRequest(name, True, story))
        self.run_for(self.random.choice((0, 50)))
        self.machine.engine.submit(PauseScheduleRequest(name, False, story))

"""Which fire times of a schedule become jobs, and the frame that holds both.

A schedule that was late, because the server was away or its clock was set, has missed fires. Its policy says
what happens to them: `skip` fires only those of the last minute, `last` the newest one, `all` every one, up
to the newest thousand.
"""

from __future__ import annotations

import msgspec

from driftq.core.jobs.records import JobsEnqueued, JobTerms
from driftq.core.jobs.table import JOBS_TOPIC
from driftq.core.keys import fingerprint
from driftq.core.records import TopicCreated, encode_record
from driftq.core.schedules.records import NO_JOB, ScheduleFire, SchedulesFired
from driftq.core.schedules.table import Schedule
from driftq.core.state import Topic
from driftq.model import TopicOptions
from driftq.model.job import JobRequest
from driftq.model.time import rfc3339
from driftq.server.schedules.cron import fires_between, next_fire
from driftq.server.turn import Turn
from driftq.storage.entry import encode_job

MISSED_MAX = 1_000
"""The most fires of one schedule that `all` makes up for."""
LATE_MS = 60_000
"""How late a fire may be and still not count as missed."""
FIRES_A_TURN = 1_000
_TOGETHER_BYTES = 1 << 20
_HEAD_BYTES = 512


def fires_due(schedule: Schedule, *, wall: int, limit: int) -> list[ScheduleFire]:
    """What a due schedule fires now, with NO_JOB where its policy passes over what it missed."""
    terms = schedule.terms
    due = fires_between(terms.cron, terms.timezone, schedule.next_at, wall, limit=MISSED_MAX)
    following = next_fire(terms.cron, terms.timezone, due[-1])
    if terms.missed == "last":
        chosen = due[-1:]
    elif terms.missed == "all":
        chosen = due
    else:
        chosen = [at for at in due if at >= wall - LATE_MS]
    if not chosen:
        return [ScheduleFire(terms.name, due[-1], following, NO_JOB)]
    nexts = [*chosen[1:], following]
    fires = [ScheduleFire(terms.name, at, after, 0) for at, after in zip(chosen, nexts, strict=True)]
    return fires[:limit]


def scheduled_job(schedule: Schedule, fire_at: int | None) -> JobRequest:
    """The job of one fire; its key is the schedule and the fire time. A run by hand has no key."""
    terms = schedule.terms
    return JobRequest(
        queue=terms.queue,
        task=terms.task,
        payload=msgspec.Raw(terms.payload.encode()),
        priority=terms.priority,
        max_retries=terms.max_retries,
        timeout_ms=terms.timeout_ms,
        retry=terms.retry,
        idempotency_key="" if fire_at is None else fire_key(terms.name, fire_at),
    )


def fire_key(name: str, fire_at: int) -> str:
    """The idempotency key of the job of one fire."""
    return f"schedule:{name}:{rfc3339(fire_at)}"


class Firing:
    """Fires of one turn: jobs and the record of their fires, together in frames of bounded size."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._topic = _jobs_topic(turn)
        self._terms: list[JobTerms] = []
        self._entries: list[bytes] = []
        self._fires: list[ScheduleFire] = []
        self._bytes = 0

    def add(self, schedule: Schedule, fire: ScheduleFire) -> None:
        if fire.offset != NO_JOB:
            job = scheduled_job(schedule, fire.fire_at)
            fire.offset = self._topic.next_offset + len(self._entries)
            self._terms.append(
                JobTerms(
                    offset=fire.offset,
                    queue=job.queue,
                    priority=job.priority,
                    run_at=self._turn.now,
                    max_retries=job.max_retries,
                    timeout_ms=job.timeout_ms,
                    fingerprint=fingerprint(job.queue, job.idempotency_key),
                    retry=job.retry,
                )
            )
            self._entries.append(encode_job(job, self._turn.now))
            self._bytes += len(self._entries[-1])
        self._fires.append(fire)
        if self._bytes > _TOGETHER_BYTES:
            self.flush()

    def flush(self) -> None:
        """The jobs, and that they were fired, become durable together or not at all."""
        turn = self._turn
        if not self._fires:
            return
        fired = SchedulesFired(at=turn.now, fires=self._fires)
        if self._entries:
            enqueued = JobsEnqueued(at=turn.now, jobs=self._terms)
            heads = len(encode_record(enqueued)) + len(encode_record(fired)) + 8 * len(self._entries)
            turn.journal.keep_together(self._bytes + heads + _HEAD_BYTES)
            turn.journal.add_texts(self._topic, self._entries, also=enqueued, now=turn.now)
            turn.counters.jobs_enqueued += len(self._terms)
            turn.counters.schedule_fires += len(self._terms)
        turn.journal.add(fired)
        turn.counters.schedule_fires_skipped += len(self._fires) - len(self._entries)
        self._terms, self._entries, self._fires, self._bytes = [], [], [], 0


def _jobs_topic(turn: Turn) -> Topic:
    state = turn.state
    if JOBS_TOPIC not in state.topics:
        turn.journal.add(TopicCreated(turn.now, state.next_topic, JOBS_TOPIC, 1, TopicOptions()))
    return state.topics[JOBS_TOPIC]

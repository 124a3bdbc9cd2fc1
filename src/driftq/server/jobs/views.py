"""Jobs as clients see them: the facts in the table together with the stored form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from driftq.core.jobs.table import JOBS_TOPIC, JobState, JobTable, job_id
from driftq.core.keys import MessageRef
from driftq.core.state import State
from driftq.errors import JobNotFound, NotConfirmed
from driftq.model.job import FIRST_TIMING, RetryTiming
from driftq.model.time import rfc3339
from driftq.model.wire.jobs import JobAttempt, JobRetryView, JobView
from driftq.server.lookup import MessageLookup
from driftq.server.walk import Walk, in_order
from driftq.storage.entry import decode_job, produced_at
from driftq.storage.journal import Journal

PAGE_BYTES = 4 << 20
LOOKED_AT_TOGETHER = 2_000
_JOBS_A_UNIT = 10
_FACTS_TOGETHER = 50
_UNITS_A_JOB = 10
_WAITING = ("ready", "scheduled")

Done = Callable[[Any], None]
"""Takes the result, or a NotConfirmed."""


class JobFacts(msgspec.Struct, frozen=True):
    """The table's facts of one job."""

    offset: int
    state: str
    attempts: int
    due_at: int
    last_error: str
    result: str | None
    history: list[JobAttempt]
    owner: str | None
    lease_until: int | None
    waits_for: list[int]


class JobPage(msgspec.Struct, frozen=True):
    """Part of a list of jobs."""

    jobs: list[JobFacts]
    more: bool


def job_facts(state: State, offset: int, *, now: int, wall: int) -> JobFacts:
    """One job; JobNotFound when there is none."""
    jobs = state.jobs
    name = jobs.state_name(offset, now=now, wall=wall)
    if name is None:
        raise JobNotFound(job_id(offset))
    grant = jobs.grants.get(offset)
    return JobFacts(
        offset=offset,
        state=name,
        attempts=jobs.attempts[offset - jobs.base],
        due_at=jobs.due[offset - jobs.base],
        last_error=jobs.errors.get(offset, ""),
        result=jobs.results.get(offset),
        history=_history(jobs, offset),
        owner=grant.owner if grant is not None else None,
        lease_until=grant.ends_at() if grant is not None else None,
        waits_for=sorted(jobs.dependencies.unmet.get(offset, ())),
    )


def _history(jobs: JobTable, offset: int) -> list[JobAttempt]:
    """Every recorded run, and the current one."""
    history = [
        JobAttempt(run.owner, rfc3339(run.started_at), rfc3339(run.ended_at), run.error)
        for run in jobs.histories.get(offset, ())
    ]
    grant = jobs.grants.get(offset)
    if grant is not None:
        history.append(JobAttempt(grant.owner, rfc3339(grant.claimed_at), None, None))
    return history


class JobFilter(msgspec.Struct, frozen=True):
    """Which jobs a list has."""

    queue: str | None
    state_name: str | None
    now: int
    wall: int
    """Both decide which waiting jobs are ready."""


def walk_jobs(
    state: State,
    wanted: JobFilter,
    *,
    limit: int,
    start: int,
    shows: Callable[[str], bool] | None = None,
) -> Walk[JobPage]:
    """Jobs from an offset on, oldest first; fewer than the limit where they are large.

    `shows`: which queues the list may name, if not all.
    """
    page: list[JobFacts] = []
    topic = state.topics.get(JOBS_TOPIC)
    queues = yield from _queue_numbers(state.jobs, wanted.queue, shows)
    if topic is None or (not queues and queues is not None):
        return JobPage(page, more=False)
    jobs, index = state.jobs, topic.partitions[0].index
    offset, size = max(start, jobs.base), 0
    while offset < jobs.base + len(jobs.states):
        first = max(offset - jobs.base, 0)  # Jobs may have been dropped since the last step.
        offset = jobs.base + first + LOOKED_AT_TOGETHER
        yield LOOKED_AT_TOGETHER // _JOBS_A_UNIT
        for found in _offsets(jobs, first, wanted.state_name, queues):
            if wanted.state_name in _WAITING and not _is_in(jobs, found, wanted):
                continue
            ordinal = index.find(found)
            size += index.place_at(ordinal).length if ordinal is not None else 0
            if len(page) == limit or (page and size > PAGE_BYTES):
                return JobPage(page, more=True)
            page.append(job_facts(state, found, now=wanted.now, wall=wanted.wall))
            if len(page) % _FACTS_TOGETHER == 0:
                offset = found + 1
                yield _FACTS_TOGETHER * _UNITS_A_JOB
                break
    return JobPage(page, more=False)


def _is_in(jobs: JobTable, offset: int, wanted: JobFilter) -> bool:
    return jobs.state_name(offset, now=wanted.now, wall=wanted.wall) == wanted.state_name


def _queue_numbers(
    jobs: JobTable, queue: str | None, shows: Callable[[str], bool] | None
) -> Walk[frozenset[int] | None]:
    """The numbers of the queues that a list may name; None: all."""
    if queue is not None:
        return frozenset((jobs.queues[queue].number,)) if queue in jobs.queues else frozenset()
    if shows is None:
        return None
    names = yield from in_order(jobs.queues, shows)
    return frozenset(jobs.queues[name].number for name in names)


def _offsets(jobs: JobTable, first: int, state_name: str | None, queues: frozenset[int] | None) -> list[int]:
    """The jobs of these queues in the next columns. A waiting job may be in the other waiting state."""
    stop, at = first + LOOKED_AT_TOGETHER, jobs.base + first
    states = jobs.states[first:stop]
    wanted = frozenset(JobState)
    if state_name is not None:
        state = JobState.WAITING if state_name in _WAITING else JobState[state_name.upper()]
        if state not in states:
            return []
        wanted = frozenset((state,))
    if queues is None:
        return [offset for offset, state in enumerate(states, at) if state in wanted]
    rows = enumerate(zip(jobs.queue_numbers[first:stop], states, strict=True), at)
    return [offset for offset, (number, state) in rows if number in queues and state in wanted]


class JobReader:
    """Reads the stored forms of jobs, off the loop where needed."""

    def __init__(self, lookup: MessageLookup, journal: Journal) -> None:
        self._lookup = lookup
        self._journal = journal

    def views(self, facts: list[JobFacts], done: Done) -> None:
        """These jobs, as JobView; without those that were dropped since their facts were read."""
        refs = self._refs([job.offset for job in facts])

        def give(entries: dict[MessageRef, bytes] | NotConfirmed) -> None:
            if isinstance(entries, NotConfirmed):
                done(entries)
            else:
                kept = ((job, entries.get(ref)) for job, ref in zip(facts, refs, strict=True))
                done([job_view(job, entry) for job, entry in kept if entry is not None])

        self._lookup.read(refs, give)

    def entries(self, offsets: list[int], done: Done) -> None:
        """The stored forms of these jobs, in order."""
        refs = self._refs(offsets)

        def give(entries: dict[MessageRef, bytes] | NotConfirmed) -> None:
            done(entries if isinstance(entries, NotConfirmed) else [entries[ref] for ref in refs])

        self._lookup.read(refs, give)

    def _refs(self, offsets: list[int]) -> list[MessageRef]:
        """Where the jobs are stored: one place for each."""
        topic = self._journal.state.topics[JOBS_TOPIC] if offsets else None
        return [MessageRef(topic.id, offset) for offset in offsets] if topic is not None else []


def job_view(facts: JobFacts, entry: bytes) -> JobView:
    """A job's view; `entry` is its stored form."""
    stored = decode_job(entry)
    return JobView(
        job_id=job_id(facts.offset),
        queue=stored.queue,
        task=stored.task,
        payload=stored.payload,
        state=facts.state,
        priority=stored.priority,
        attempts=facts.attempts,
        max_retries=stored.max_retries,
        timeout_ms=stored.timeout_ms or None,
        idempotency_key=stored.idempotency_key or None,
        enqueued_at=rfc3339(produced_at(entry)),
        run_at=rfc3339(facts.due_at),
        last_error=facts.last_error,
        owner=facts.owner,
        lease_until=rfc3339(facts.lease_until) if facts.lease_until is not None else None,
        result=msgspec.Raw(facts.result.encode()) if facts.result is not None else msgspec.UNSET,
        error=facts.last_error if facts.state == "dead" else None,
        retry=retry_view(stored.retry or FIRST_TIMING, max_retries=stored.max_retries),
        metadata=stored.metadata,
        history=facts.history,
        limit_key=stored.limit_key or None,
        after=[job_id(offset) for offset in stored.after],
        waits_for=[job_id(offset) for offset in facts.waits_for],
    )


def retry_view(timing: RetryTiming, *, max_retries: int) -> JobRetryView:
    jitter: Literal["full", "none"] = "full" if timing.full_jitter else "none"
    return JobRetryView(max_retries + 1, timing.base_ms, timing.cap_ms, jitter)

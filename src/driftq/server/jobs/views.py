"""Jobs as clients see them: the facts in the table together with the stored form."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
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
from driftq.storage.entry import decode_job, produced_at
from driftq.storage.journal import Journal

PAGE_BYTES = 4 << 20
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


def list_jobs(
    state: State,
    *,
    queue: str | None,
    state_name: str | None,
    limit: int,
    start: int,
    now: int,
    wall: int,
    shows: Callable[[str], bool] | None = None,
) -> JobPage:
    """Jobs from an offset on, oldest first; fewer than the limit where they are large.

    `shows`: which queues the list may name, if not all.
    """
    topic = state.topics.get(JOBS_TOPIC)
    page: list[JobFacts] = []
    if topic is None:
        return JobPage(page, more=False)
    index = topic.partitions[0].index
    wanted = JobState.WAITING if state_name in _WAITING else None
    if state_name is not None and wanted is None:
        wanted = JobState[state_name.upper()]
    size = 0
    for offset in _offsets(state.jobs, queue, wanted, start=start, shows=shows):
        if state_name in _WAITING and state.jobs.state_name(offset, now=now, wall=wall) != state_name:
            continue
        ordinal = index.find(offset)
        size += index.place_at(ordinal).length if ordinal is not None else 0
        if len(page) == limit or (page and size > PAGE_BYTES):
            return JobPage(page, more=True)
        page.append(job_facts(state, offset, now=now, wall=wall))
    return JobPage(page, more=False)


def _offsets(
    jobs: JobTable,
    queue: str | None,
    wanted: JobState | None,
    *,
    start: int,
    shows: Callable[[str], bool] | None,
) -> Iterator[int]:
    """Jobs in order. Those of other queues are passed by in C: the list runs in a turn."""
    if queue is not None or shows is None:
        return jobs.offsets(queue=queue, state=wanted, start=start)
    names = [name for name in jobs.queue_names if shows(name)]
    return heapq.merge(*(jobs.offsets(queue=name, state=wanted, start=start) for name in names))


class JobReader:
    """Reads the stored forms of jobs, off the loop where needed."""

    def __init__(self, lookup: MessageLookup, journal: Journal) -> None:
        self._lookup = lookup
        self._journal = journal

    def views(self, facts: list[JobFacts], done: Done) -> None:
        """These jobs, as JobView."""

        def give(entries: list[bytes] | NotConfirmed) -> None:
            if isinstance(entries, NotConfirmed):
                done(entries)
            else:
                done([job_view(job, entry) for job, entry in zip(facts, entries, strict=True)])

        self.entries([job.offset for job in facts], give)

    def entries(self, offsets: list[int], done: Done) -> None:
        """The stored forms of these jobs, in order."""
        topic = self._journal.state.topics.get(JOBS_TOPIC)
        refs = [MessageRef(topic.id, offset) for offset in offsets] if topic is not None else []

        def give(entries: dict[MessageRef, bytes] | NotConfirmed) -> None:
            done(entries if isinstance(entries, NotConfirmed) else [entries[ref] for ref in refs])

        self._lookup.read(refs, give)


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

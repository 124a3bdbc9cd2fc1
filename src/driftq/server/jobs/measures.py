"""Counters and histograms of jobs, from the records that the jobs stage is about to write."""

from __future__ import annotations

from driftq.core.jobs.records import (
    CAUSE_LEASE_ENDED,
    CAUSE_TIMED_OUT,
    JobCancelled,
    JobRequeued,
    JobsClaimed,
    JobsCompleted,
    JobsFailed,
)
from driftq.core.jobs.table import JobTable
from driftq.core.records import Record
from driftq.server.counters import Counters
from driftq.server.turn import Turn


def measure(turn: Turn, record: Record) -> None:
    """Count what this record does. Call it before the record is applied: afterwards grants are gone."""
    counters, jobs = turn.counters, turn.state.jobs
    match record:
        case JobsClaimed():
            _claimed(counters, jobs, record, wall=turn.wall)
        case JobsCompleted():
            counters.jobs_completed += len(record.offsets)
            _ended(counters, jobs, record.offsets, at=record.at)
        case JobsFailed():
            _failed(counters, jobs, record)
        case JobCancelled():
            counters.jobs_cancelled += 1
            counters.jobs_dead += 1
            _ended(counters, jobs, [record.offset], at=record.at)
        case JobRequeued():
            counters.jobs_requeued += 1
        case _:
            pass


def _claimed(counters: Counters, jobs: JobTable, record: JobsClaimed, *, wall: int) -> None:
    """How long each job was due before it was claimed."""
    counters.jobs_claimed += len(record.offsets)
    observe = counters.histograms.job_wait_seconds.observe
    for offset in record.offsets:
        slot = offset - jobs.base
        observe(max(0, (wall if jobs.by_wall[slot] else record.at) - jobs.due[slot]) / 1000)


def _failed(counters: Counters, jobs: JobTable, record: JobsFailed) -> None:
    counters.job_failures += len(record.jobs)
    if record.cause == CAUSE_LEASE_ENDED:
        counters.job_leases_expired += len(record.jobs)
    elif record.cause == CAUSE_TIMED_OUT:
        counters.job_timeouts += len(record.jobs)
    given_up = sum(1 for failed in record.jobs if failed.due_at < 0)
    counters.jobs_dead += given_up
    counters.jobs_retried += len(record.jobs) - given_up
    _ended(counters, jobs, [failed.offset for failed in record.jobs], at=record.at)


def _ended(counters: Counters, jobs: JobTable, offsets: list[int], *, at: int) -> None:
    """How long each run took; a job that waited had none."""
    observe = counters.histograms.job_run_seconds.observe
    for offset in offsets:
        grant = jobs.grants.get(offset)
        if grant is not None:
            observe((at - grant.claimed_at) / 1000)

"""Folding job records into the table."""

from collections.abc import Callable
from typing import Any

from driftq.core.jobs.records import (
    CAUSE_TIMED_OUT,
    FailedJob,
    JobCancelled,
    JobExtended,
    JobRequeued,
    JobsClaimed,
    JobsCompleted,
    JobsEnqueued,
    JobsFailed,
)
from driftq.core.jobs.table import EndedRun, JobGrant, JobState, JobTable
from driftq.core.records import Record

CANCELLED = "cancelled"
LEASE_ENDED = "lease_ended"
TIMED_OUT = "execution_timeout"


def fold_job(jobs: JobTable, record: Record) -> None:
    """Apply a job record to the table."""
    _FOLDS[type(record)](jobs, record)


def failure_text(record: JobsFailed, failed: FailedJob) -> str:
    """Why this run failed, in words."""
    return failed.error or (TIMED_OUT if record.cause == CAUSE_TIMED_OUT else LEASE_ENDED)


def _enqueue(jobs: JobTable, record: JobsEnqueued) -> None:
    for terms in record.jobs:
        jobs.add(terms, record.at)


def _claim(jobs: JobTable, record: JobsClaimed) -> None:
    for number, offset in enumerate(record.offsets):
        slot = offset - jobs.base
        jobs.states[slot] = JobState.IN_FLIGHT
        jobs.attempts[slot] += 1
        timeout = jobs.timeouts[slot]
        jobs.hold(
            offset,
            JobGrant(
                owner=record.owner,
                token=record.first_token + number,
                lease_ms=record.lease_ms,
                lease_until=record.at + record.lease_ms,
                times_out_at=record.at + timeout if timeout else 0,
                claimed_at=record.at,
            ),
        )
    jobs.next_token = record.first_token + len(record.offsets)


def _extend(jobs: JobTable, record: JobExtended) -> None:
    grant = jobs.grants[record.offset]
    grant.lease_ms = record.lease_ms
    grant.lease_until = record.at + record.lease_ms
    jobs.hold(record.offset, grant)


def _end(jobs: JobTable, offset: int, at: int, error: str | None) -> None:
    grant = jobs.grants.pop(offset, None)
    if grant is not None:
        attempt = EndedRun(grant.owner, grant.claimed_at, at, error)
        jobs.histories.setdefault(offset, []).append(attempt)


def _complete(jobs: JobTable, record: JobsCompleted) -> None:
    for offset, result in zip(record.offsets, record.results, strict=True):
        token = jobs.grants[offset].token
        _end(jobs, offset, record.at, None)
        jobs.results[offset] = result
        jobs.completed_tokens[offset] = token
        jobs.errors.pop(offset, None)
        jobs.finish(offset, JobState.SUCCEEDED, at=record.at)


def _fail(jobs: JobTable, record: JobsFailed) -> None:
    for failed in record.jobs:
        error = failure_text(record, failed)
        _end(jobs, failed.offset, record.at, error)
        jobs.errors[failed.offset] = error
        if failed.due_at >= 0:
            jobs.wait(failed.offset, failed.due_at)
        else:
            jobs.finish(failed.offset, JobState.DEAD, at=record.at)


def _cancel(jobs: JobTable, record: JobCancelled) -> None:
    _end(jobs, record.offset, record.at, CANCELLED)
    jobs.errors[record.offset] = CANCELLED
    jobs.finish(record.offset, JobState.DEAD, at=record.at)


def _requeue(jobs: JobTable, record: JobRequeued) -> None:
    jobs.attempts[record.offset - jobs.base] = 0
    jobs.wait(record.offset, record.at)


_FOLDS: dict[type[Record], Callable[[JobTable, Any], None]] = {
    JobsEnqueued: _enqueue,
    JobsClaimed: _claim,
    JobExtended: _extend,
    JobsCompleted: _complete,
    JobsFailed: _fail,
    JobCancelled: _cancel,
    JobRequeued: _requeue,
}

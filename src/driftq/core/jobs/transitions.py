"""The legal transitions of a job, and no others: how each is decided, and how its record is folded.

enqueue           → ready, scheduled, blocked   cancel   blocked, ready, scheduled, in_flight → dead
claim    ready    → in_flight                   requeue  dead → ready
complete in_flight → succeeded
unblock  blocked  → ready, scheduled, or dead when a job that it waits for is dead (`unblocking`)
fail, lease or time over   in_flight → scheduled, or dead when retries are used up
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from driftq.core.jobs.ended_run import EndedRun
from driftq.core.jobs.flow_records import QueueLimited, QueuePaused, fold_limited, fold_paused
from driftq.core.jobs.records import (
    CAUSE_FAILED,
    CAUSE_LEASE_ENDED,
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
from driftq.core.jobs.retries import wait_ms
from driftq.core.jobs.table import JobGrant, JobState, JobTable, job_id
from driftq.core.jobs.unblocking import JobsUnblocked, fold_unblocked
from driftq.core.records import Record
from driftq.errors import DriftQError, InvalidArgument, JobNotFound, StaleLease, WrongJobState
from driftq.model.options.limits import LEASE_MS_MAX

CANCELLED = "cancelled"
LEASE_ENDED = "lease_ended"
TIMED_OUT = "execution_timeout"


class Settlement(msgspec.Struct, gc=False):
    """The settlement of one run, as its worker reports it. An error of None is success."""

    offset: int
    token: int
    error: str | None = None
    retryable: bool = True
    result: str | None = None


def fold_job(jobs: JobTable, record: Record) -> None:
    """Apply a job record to the table."""
    _FOLDS[type(record)](jobs, record)


def _enqueue(jobs: JobTable, record: JobsEnqueued) -> None:
    for terms in record.jobs:
        jobs.add(terms, record.at)


# Claim and heartbeat


def check_lease(lease_ms: int) -> None:
    if not 1 <= lease_ms <= LEASE_MS_MAX:
        raise InvalidArgument("lease_ms", f"must be from 1 to {LEASE_MS_MAX}")


def decide_claim(
    jobs: JobTable, queues: list[str], *, owner: str, lease_ms: int, limit: int, now: int, wall: int
) -> JobsClaimed | None:
    """The next jobs of these queues for this owner; None when nothing is ready."""
    check_lease(lease_ms)
    offsets = jobs.best(queues, limit=limit, now=now, wall=wall)
    if not offsets:
        return None
    return JobsClaimed(at=now, owner=owner, lease_ms=lease_ms, first_token=jobs.next_token, offsets=offsets)


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
        if jobs.flow.queues:
            jobs.flow.claimed(jobs, offset, record.at)
    jobs.next_token = record.first_token + len(record.offsets)


def decide_heartbeat(
    jobs: JobTable, offset: int, *, token: int, lease_ms: int | None, now: int
) -> JobExtended:
    """Renew the lease, for its old length unless another is given."""
    if lease_ms is not None:
        check_lease(lease_ms)
    grant = require_grant(jobs, offset, token, now)
    return JobExtended(at=now, offset=offset, lease_ms=grant.lease_ms if lease_ms is None else lease_ms)


def _extend(jobs: JobTable, record: JobExtended) -> None:
    grant = jobs.grants[record.offset]
    grant.lease_ms = record.lease_ms
    grant.lease_until = record.at + record.lease_ms
    jobs.hold(record.offset, grant)


def require_grant(jobs: JobTable, offset: int, token: int, now: int) -> JobGrant:
    """The grant of this token; raises when it is over or another one has taken its place."""
    _require_state(jobs, offset)
    grant = jobs.grants.get(offset)
    if grant is None or grant.token != token or grant.ends_at() <= now:
        raise StaleLease(job_id(offset), given=token)
    return grant


def _require_state(jobs: JobTable, offset: int) -> JobState:
    state = jobs.state(offset)
    if state is None:
        raise JobNotFound(job_id(offset))
    return state


# Complete and fail


def decide_settlements(
    jobs: JobTable, settlements: Sequence[Settlement], *, now: int, jitter: Callable[[], float]
) -> tuple[JobsCompleted | None, JobsFailed | None, list[DriftQError | None]]:
    """Completions and failures together, and the outcome of each."""
    completed = JobsCompleted(at=now, offsets=[], results=[])
    failed = JobsFailed(at=now, cause=CAUSE_FAILED, jobs=[])
    outcomes: list[DriftQError | None] = []
    seen: set[int] = set()
    completing: dict[int, int] = {}
    for one in settlements:
        try:
            if one.error is None and one.token in (
                jobs.completed_tokens.get(one.offset),
                completing.get(one.offset),
            ):
                outcomes.append(None)  # Reported before.
                continue
            require_grant(jobs, one.offset, one.token, now)
            if one.offset in seen:
                raise StaleLease(job_id(one.offset), given=one.token)
            seen.add(one.offset)
            if one.error is None:
                completing[one.offset] = one.token
                completed.offsets.append(one.offset)
                completed.results.append(one.result)
            else:
                failed.jobs.append(
                    _after_failure(jobs, one.offset, one.error, now, jitter, retryable=one.retryable)
                )
            outcomes.append(None)
        except DriftQError as refused:
            outcomes.append(refused)
    return completed if completed.offsets else None, failed if failed.jobs else None, outcomes


def decide_job_expiries(jobs: JobTable, *, now: int, jitter: Callable[[], float]) -> list[JobsFailed]:
    """Leases and execution times that are over count as failed attempts."""
    lease = JobsFailed(at=now, cause=CAUSE_LEASE_ENDED, jobs=[])
    timed_out = JobsFailed(at=now, cause=CAUSE_TIMED_OUT, jobs=[])
    for offset in jobs.ended(now):
        grant = jobs.grants[offset]
        too_long = 0 < grant.times_out_at <= now
        record, error = (timed_out, TIMED_OUT) if too_long else (lease, LEASE_ENDED)
        record.jobs.append(_after_failure(jobs, offset, error, now, jitter, retryable=True))
    return [record for record in (lease, timed_out) if record.jobs]


def _after_failure(
    jobs: JobTable, offset: int, error: str, now: int, jitter: Callable[[], float], *, retryable: bool
) -> FailedJob:
    slot = offset - jobs.base
    attempt = jobs.attempts[slot]
    if not retryable or attempt > jobs.max_retries[slot]:
        return FailedJob(offset=offset, due_at=-1, error=error)
    return FailedJob(
        offset=offset, due_at=now + wait_ms(jobs.retries.at(slot), attempt, jitter()), error=error
    )


def failure_text(record: JobsFailed, failed: FailedJob) -> str:
    """Why this run failed, in words."""
    return failed.error or (TIMED_OUT if record.cause == CAUSE_TIMED_OUT else LEASE_ENDED)


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


def _end(jobs: JobTable, offset: int, at: int, error: str | None) -> None:
    grant = jobs.grants.pop(offset, None)
    if grant is not None:
        attempt = EndedRun(grant.owner, grant.claimed_at, at, error)
        jobs.histories.setdefault(offset, []).append(attempt)
        if jobs.flow.queues:
            jobs.flow.released(jobs, offset)


# Cancel and requeue


def decide_cancel(jobs: JobTable, offset: int, now: int) -> JobCancelled:
    state = _require_state(jobs, offset)
    if state in (JobState.SUCCEEDED, JobState.DEAD):
        raise WrongJobState(job_id(offset), state=state.name.lower(), wanted="cancel")
    return JobCancelled(at=now, offset=offset)


def _cancel(jobs: JobTable, record: JobCancelled) -> None:
    _end(jobs, record.offset, record.at, CANCELLED)
    jobs.errors[record.offset] = CANCELLED
    jobs.finish(record.offset, JobState.DEAD, at=record.at)


def decide_requeue(jobs: JobTable, offset: int, *, now: int, wall: int) -> JobRequeued:
    if _require_state(jobs, offset) is not JobState.DEAD:
        state = jobs.state_name(offset, now=now, wall=wall) or ""
        raise WrongJobState(job_id(offset), state=state, wanted="requeue")
    return JobRequeued(at=now, offset=offset)


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
    QueueLimited: fold_limited,
    QueuePaused: fold_paused,
    JobsUnblocked: fold_unblocked,
}

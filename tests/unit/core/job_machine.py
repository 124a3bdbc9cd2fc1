"""The jobs of the pure machine for stories: records folded at once, time and draws as the story says."""

from __future__ import annotations

from driftq.core.jobs.flow_records import QueueLimited, QueuePaused
from driftq.core.jobs.limits import QueueLimits
from driftq.core.jobs.records import JobsEnqueued, JobTerms
from driftq.core.jobs.table import JobTable
from driftq.core.jobs.transitions import (
    Settlement,
    decide_cancel,
    decide_claim,
    decide_heartbeat,
    decide_job_expiries,
    decide_requeue,
    decide_settlements,
    fold_job,
)
from driftq.core.jobs.unblocking import decide_unblocked
from driftq.core.records import Record
from driftq.errors import DriftQError
from driftq.model.job import RetryTiming


class PureJobs:
    """A job table with its clock. A job is named by its offset, a claimed one by its offset and token."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000
        self.wall_ahead_ms = 0
        self.jitter = 1.0
        self.table = JobTable()
        self.log: list[Record] = []
        self._next = 0

    @property
    def wall(self) -> int:
        """What the wall clock says."""
        return self.now + self.wall_ahead_ms

    def fold(self, record: Record) -> None:
        self.log.append(record)
        fold_job(self.table, record)

    def restart(self) -> None:
        """Only the log is left."""
        self.table = JobTable()
        for record in self.log:
            fold_job(self.table, record)

    def enqueue(
        self,
        queue: str = "mail",
        *,
        priority: int = 5,
        delay_ms: int = 0,
        max_retries: int = 3,
        timeout_ms: int = 0,
        fingerprint: int = 0,
        retry: RetryTiming | None = None,
        key: str = "",
        after: list[int] | None = None,
    ) -> int:
        offset, self._next = self._next, self._next + 1
        run_at = self.wall + delay_ms if delay_ms else self.now
        terms = JobTerms(
            offset,
            queue,
            priority,
            run_at,
            max_retries,
            timeout_ms,
            fingerprint,
            bool(delay_ms),
            retry,
            limit_key=key,
            after=after or [],
        )
        self.fold(JobsEnqueued(at=self.now, jobs=[terms]))
        self.unblock()
        return offset

    def claim(
        self, *queues: str, limit: int = 1, owner: str = "w", lease_ms: int = 2_000
    ) -> list[tuple[int, int]]:
        """Offsets and tokens of what is claimed."""
        record = decide_claim(
            self.table,
            list(queues) or ["mail"],
            owner=owner,
            lease_ms=lease_ms,
            limit=limit,
            now=self.now,
            wall=self.wall,
        )
        if record is None:
            return []
        self.fold(record)
        return [(offset, record.first_token + number) for number, offset in enumerate(record.offsets)]

    def best(self) -> list[int]:
        """All that could be claimed, in the order of claims."""
        return self.table.best(["mail"], limit=100, now=self.now, wall=self.wall)

    def heartbeat(self, offset: int, token: int, lease_ms: int | None = None) -> None:
        self.fold(decide_heartbeat(self.table, offset, token=token, lease_ms=lease_ms, now=self.now))

    def settle(self, *settlements: Settlement) -> list[DriftQError | None]:
        completed, failed, outcomes = decide_settlements(
            self.table, settlements, now=self.now, jitter=lambda: self.jitter
        )
        for record in (completed, failed):
            if record is not None:
                self.fold(record)
        self.unblock()
        return outcomes

    def unblock(self) -> None:
        while (record := decide_unblocked(self.table, now=self.now)) is not None:
            self.fold(record)

    def limit(self, queue: str, limits: QueueLimits) -> None:
        self.fold(QueueLimited(at=self.now, queue=queue, limits=limits))

    def pause(self, queue: str = "mail", *, paused: bool = True) -> None:
        self.fold(QueuePaused(at=self.now, queue=queue, paused=paused))

    def complete(self, offset: int, token: int, result: str | None = None) -> None:
        (refused,) = self.settle(Settlement(offset, token, result=result))
        if refused is not None:
            raise refused

    def fail(self, offset: int, token: int, error: str = "boom", *, retryable: bool = True) -> None:
        (refused,) = self.settle(Settlement(offset, token, error=error, retryable=retryable))
        if refused is not None:
            raise refused

    def cancel(self, offset: int) -> None:
        self.fold(decide_cancel(self.table, offset, self.now))
        self.unblock()

    def requeue(self, offset: int) -> None:
        self.fold(decide_requeue(self.table, offset, now=self.now, wall=self.wall))

    def pass_time(self, ms: int) -> None:
        """Time passes, and what is over then ends."""
        self.now += ms
        for record in decide_job_expiries(self.table, now=self.now, jitter=lambda: self.jitter):
            self.fold(record)
        self.unblock()
        self.table.expire(self.now)

    def state(self, offset: int) -> str | None:
        return self.table.state_name(offset, now=self.now, wall=self.wall)

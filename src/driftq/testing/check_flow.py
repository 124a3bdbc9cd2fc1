"""Judges flow control and dependencies: limits, pauses, and jobs that wait for others.

It sees what workers see. A lease counts as live only while that is certain: from its grant until its worker
reports an end, a client cancels the job, or its time is over.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from driftq.core.jobs.limits import ClaimLimit, ClaimRate, QueueLimits
from driftq.server.jobs.requests import JobsGranted
from driftq.testing.checkers import require


@dataclass(slots=True)
class FlowJob:
    """A job that was enqueued, as its owner knows it."""

    queue: str
    key: str
    after: tuple[int, ...]


@dataclass(slots=True)
class _QueueLife:
    limits: QueueLimits = field(default_factory=QueueLimits)
    """Confirmed, and never changed after that."""
    paused_since: int | None = None
    """When a pause was confirmed, as long as nobody has asked for its end."""
    claims: list[tuple[int, str]] = field(default_factory=list)
    """The times of grants, with the limit keys of the jobs."""


class FlowChecker:
    """Observes grants and ends. Times are the server's own."""

    def __init__(self) -> None:
        self.jobs: dict[int, FlowJob] = {}
        self._queues: dict[str, _QueueLife] = {}
        self._live: dict[int, int] = {}
        """Until when a lease is certainly live."""
        self._finished: set[int] = set()
        """Jobs whose completion was at least sent."""
        self._cancelled: set[int] = set()

    def limited(self, queue: str, limits: QueueLimits) -> None:
        """A confirmed answer."""
        self._queue(queue).limits = limits

    def pause_confirmed(self, queue: str, at: int) -> None:
        self._queue(queue).paused_since = at

    def resuming(self, queue: str) -> None:
        """A resume was sent; whether the server got it is unknown."""
        self._queue(queue).paused_since = None

    def enqueued(self, offset: int, job: FlowJob) -> None:
        """A confirmed answer."""
        self.jobs[offset] = job

    def extended(self, offset: int) -> None:
        """A heartbeat was sent, which may also shorten the lease."""
        self._live.pop(offset, None)

    def ending(self, offset: int, *, completed: bool) -> None:
        """An end was sent; whether the server got it is unknown."""
        self._live.pop(offset, None)
        if completed:
            self._finished.add(offset)

    def cancelling(self, offset: int) -> None:
        """A cancellation was sent: from now on no lease of this job is certain."""
        self._live.pop(offset, None)
        self._cancelled.add(offset)

    def granted(self, granted: JobsGranted) -> None:
        record = granted.record
        self._live = {offset: until for offset, until in self._live.items() if until > record.at}
        for offset in record.offsets:
            job = self.jobs.get(offset)
            if offset not in self._cancelled:
                self._live[offset] = record.at + record.lease_ms
            if job is None:
                continue  # Its enqueueing was never answered.
            queue = self._queue(job.queue)
            queue.claims.append((record.at, job.key))
            paused = queue.paused_since is not None and record.at > queue.paused_since
            require(not paused, "J20", f"job {offset} of the paused queue {job.queue} was handed out")
            missing = [parent for parent in job.after if parent not in self._finished]
            require(not missing, "J19", f"job {offset} runs, and nobody has done {missing}")
        for name in {self.jobs[offset].queue for offset in record.offsets if offset in self.jobs}:
            self._check_limits(name, self._queue(name))

    def _check_limits(self, name: str, queue: _QueueLife) -> None:
        live = [job for offset in self._live if (job := self.jobs.get(offset)) and job.queue == name]
        _check(f"queue {name}", queue.limits.queue, len(live), [at for at, _ in queue.claims])
        for key, running in Counter(job.key for job in live if job.key).items():
            claims = [at for at, one in queue.claims if one == key]
            _check(f"key {key} of queue {name}", queue.limits.per_key, running, claims)

    def _queue(self, name: str) -> _QueueLife:
        return self._queues.setdefault(name, _QueueLife())

    def ended(self, states: dict[int, str], errors: dict[int, str]) -> None:
        """The run is idle: check how the jobs ended that waited for others."""
        for offset, job in self.jobs.items():
            parents = {parent: states.get(parent) for parent in job.after}
            dead = {f"job-{parent} is dead" for parent, state in parents.items() if state == "dead"}
            error = errors.get(offset, "")
            if error.endswith(" is dead"):
                require(error in dead, "J19", f"job {offset} is dead because of {error!r}, parents {parents}")
            if dead:
                require(states.get(offset) == "dead", "J19", f"job {offset} is {states.get(offset)}: {dead}")


def _check(name: str, limit: ClaimLimit, running: int, claims: list[int]) -> None:
    if limit.concurrency is not None:
        require(running <= limit.concurrency, "J18", f"{name} runs {running} jobs of {limit.concurrency}")
    if limit.rate is not None:
        _check_rate(name, limit.rate, claims)


def _check_rate(name: str, rate: ClaimRate, claims: list[int]) -> None:
    for first, later in zip(claims, claims[rate.count :], strict=False):
        story = f"{name} started {rate.count + 1} jobs within {later - first} ms, {rate}"
        require(later - first >= rate.per_ms, "J18", story)

"""Judges jobs: one holder at a time, growing tokens, no run after the end, and an end for each."""

from __future__ import annotations

from dataclasses import dataclass, field

from driftq.errors import DriftQError, StaleLease, Unavailable
from driftq.model.job import RetryTiming
from driftq.server.jobs.requests import JobsGranted
from driftq.testing.checkers import require


@dataclass(slots=True)
class _Job:
    max_retries: int
    retry: RetryTiming | None = None
    token: int = 0
    """Of the latest grant that was seen."""
    grants: int = 0
    held_until: int = 0
    """No other worker may get it before this, as far as is known."""
    beats: int = 0
    """Heartbeats that were sent."""
    done_by: int | None = None
    """The token whose completion was confirmed."""
    perhaps_done: set[int] = field(default_factory=set)
    """Tokens whose completion was sent and not answered."""
    given_up: bool = False
    """Its cancellation was requested, or a worker reported it as not retryable."""
    not_before: int = 0
    """Its retry is not due before this: it has no jitter, and its failure was confirmed."""


class JobChecker:
    """Observes the workers' requests and answers. Times are the server's own."""

    def __init__(self) -> None:
        self.jobs: dict[int, _Job] = {}
        self.keys: dict[str, int] = {}
        self._highest = 0

    def enqueued(self, key: str, offset: int, *, max_retries: int, retry: RetryTiming | None = None) -> None:
        """A confirmed answer: the job of this key."""
        known = self.keys.setdefault(key, offset)
        require(known == offset, "J11", f"job {key} was {known} and is now {offset}")
        self.jobs.setdefault(offset, _Job(max_retries, retry))

    def granted(self, granted: JobsGranted) -> None:
        record = granted.record
        require(len(set(record.offsets)) == len(record.offsets), "J5", f"twice in one claim: {record}")
        for number, (offset, attempt) in enumerate(zip(record.offsets, granted.attempts, strict=True)):
            token = record.first_token + number
            job = self.jobs.get(offset)
            if job is None:
                job = self.jobs[offset] = _Job(max_retries=1 << 30)  # Its enqueueing was never answered.
            name = f"job {offset} under token {token}"
            require(token > self._highest, "J7", f"{name}: {self._highest} was given before")
            self._highest = token
            require(job.done_by is None, "J1", f"{name} was done under {job.done_by}")
            require(record.at >= job.held_until, "J5", f"{name} is held until {job.held_until}, {record.at}")
            require(
                record.at >= job.not_before, "J14", f"{name} is due at {job.not_before}, granted {record.at}"
            )
            job.grants += 1
            require(job.grants <= attempt, "J8", f"{name}: attempt {attempt} after {job.grants} grants")
            require(
                attempt <= job.max_retries + 1, "J8", f"{name}: attempt {attempt} of {job.max_retries + 1}"
            )
            job.token = token
            job.held_until = record.at + record.lease_ms

    def loosened(self, offset: int, *, for_good: bool = False) -> None:
        """Its holder reported a failure, or a client cancelled it; whether the server got it is unknown."""
        self.jobs[offset].held_until = 0
        self.jobs[offset].given_up |= for_good

    def failed(self, offset: int, token: int, *, asked_at: int) -> None:
        """A failed attempt was confirmed: without jitter its retry waits for the whole time of its policy."""
        job = self.jobs[offset]
        if token == job.token and job.retry is not None and not job.retry.full_jitter:
            timing = job.retry
            wait = min(timing.base_ms * 2 ** (job.grants - 1), timing.cap_ms)
            job.not_before = asked_at + wait

    def completing(self, offset: int, token: int) -> None:
        self.jobs[offset].perhaps_done.add(token)

    def completed(
        self, offset: int, token: int, answer: DriftQError | None, *, asked_at: int, now: int
    ) -> None:
        """The answer to a completion, with the times of the request and of the answer."""
        job = self.jobs[offset]
        name = f"job {offset} under token {token}"
        if answer is None:
            require(job.done_by in (None, token), "J7", f"{name} was done under {job.done_by}")
            require(token >= job.token, "J7", f"{name} is done, but {job.token} came later")
            job.done_by = token
        elif not isinstance(answer, Unavailable):
            require(isinstance(answer, StaleLease), "J7", f"{name}: {answer!r}")
            job.perhaps_done.discard(token)
            surely = token == job.token and now < job.held_until and asked_at < now + 1
            require(not surely, "J7", f"{name} is held until {job.held_until} and was refused at {now}")

    def beating(self, offset: int, *, until: int) -> int:
        """A heartbeat is sent, which may also shorten the lease; returns its number."""
        job = self.jobs[offset]
        job.held_until = min(job.held_until, until)
        job.beats += 1
        return job.beats

    def extended(self, offset: int, token: int, beat: int, *, until: int) -> None:
        """A heartbeat was confirmed."""
        job = self.jobs[offset]
        require(token >= job.token, "J7", f"job {offset}: token {token} was extended after {job.token}")
        if token == job.token and job.held_until and beat == job.beats:
            job.held_until = max(job.held_until, until)

    def ended(self, states: dict[int, str]) -> None:
        """The run is idle: check how each job ended."""
        for offset, job in self.jobs.items():
            state = states.get(offset)
            require(state in ("succeeded", "dead"), "J1", f"job {offset} is stuck: {state}")
            if job.done_by is not None:
                require(state == "succeeded", "J1", f"job {offset} was done and is {state}")
            if state == "succeeded":
                done = job.done_by is not None or bool(job.perhaps_done)
                require(done, "J10", f"job {offset} is said to be done, and nobody did it")
        for key, offset in self.keys.items():
            require(offset in states, "J1", f"job {offset} of {key} is lost")

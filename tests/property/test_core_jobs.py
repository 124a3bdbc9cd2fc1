"""Any history of jobs: the table agrees with a plain model, and with its own log after a restart."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from driftq.core.jobs.queue import AGE_STEP_MS
from driftq.errors import DriftQError
from tests.unit.core.job_machine import PureJobs

QUEUES = ("mail", "video")


class Job:
    def __init__(self, queue: str, priority: int, due: int, max_retries: int) -> None:
        self.queue = queue
        self.priority = priority
        self.due = due
        self.by_wall = False
        self.max_retries = max_retries
        self.state = "waiting"
        self.attempts = 0
        self.token = 0
        self.until = 0


class Histories(RuleBasedStateMachine):
    """The model holds one object a job and sorts all of them for every claim."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs = PureJobs()
        self.model: dict[int, Job] = {}
        self.tokens: list[tuple[int, int]] = []

    def waiting(self, queues: list[str]) -> list[int]:
        waited = {offset: self.waited(job) for offset, job in self.model.items()}
        ready = [
            (-(job.priority + waited[offset] // AGE_STEP_MS), -waited[offset], offset)
            for offset, job in self.model.items()
            if job.state == "waiting" and waited[offset] >= 0 and job.queue in queues
        ]
        return [offset for _, _, offset in sorted(ready)]

    def waited(self, job: Job) -> int:
        """For how long it has been due, by its own kind of time."""
        return (self.jobs.wall if job.by_wall else self.jobs.now) - job.due

    def failed(self, offset: int, *, retryable: bool = True) -> None:
        job = self.model[offset]
        if retryable and job.attempts <= job.max_retries:
            job.state, job.due, job.by_wall = "waiting", self.jobs.table.due[offset], False
            cap = min(500 * 2 ** (job.attempts - 1), 30_000)
            assert self.jobs.now <= job.due <= self.jobs.now + cap
        else:
            job.state = "dead"

    @rule(
        queue=st.sampled_from(QUEUES),
        priority=st.integers(0, 9),
        delay=st.sampled_from((0, 0, 400)),
        retries=st.integers(0, 2),
    )
    def enqueue(self, queue: str, priority: int, delay: int, retries: int) -> None:
        offset = self.jobs.enqueue(queue, priority=priority, delay_ms=delay, max_retries=retries)
        job = self.model[offset] = Job(queue, priority, self.jobs.now, retries)
        if delay:
            job.due, job.by_wall = self.jobs.wall + delay, True

    @rule(queues=st.sampled_from((["mail"], ["video"], ["video", "mail"])), limit=st.integers(1, 4))
    def claim(self, queues: list[str], limit: int) -> None:
        expected = self.waiting(queues)[:limit]
        claimed = self.jobs.claim(*queues, limit=limit)
        assert [offset for offset, _ in claimed] == expected
        for offset, token in claimed:
            job = self.model[offset]
            assert all(token > other for _, other in self.tokens)
            self.tokens.append((offset, token))
            job.state, job.token, job.until = "in_flight", token, self.jobs.now + 2_000
            job.attempts += 1

    @precondition(lambda self: self.tokens)
    @rule(data=st.data(), verb=st.sampled_from(("complete", "fail", "drop", "heartbeat")))
    def settle(self, data: Any, verb: str) -> None:
        offset, token = data.draw(st.sampled_from(self.tokens))
        job = self.model[offset]
        held = job.state == "in_flight" and job.token == token
        said_before = verb == "complete" and job.state == "succeeded" and job.token == token
        try:
            if verb == "complete":
                self.jobs.complete(offset, token)
            elif verb == "heartbeat":
                self.jobs.heartbeat(offset, token)
            else:
                self.jobs.fail(offset, token, retryable=verb == "fail")
        except DriftQError:
            assert not held
            assert not said_before
            return
        assert held or said_before
        if verb == "complete":
            job.state = "succeeded"
        elif verb == "heartbeat":
            job.until = self.jobs.now + 2_000
        else:
            self.failed(offset, retryable=verb == "fail")

    @precondition(lambda self: self.model)
    @rule(data=st.data(), verb=st.sampled_from(("cancel", "requeue")))
    def move(self, data: Any, verb: str) -> None:
        offset = data.draw(st.sampled_from(sorted(self.model)))
        job = self.model[offset]
        legal = job.state == "dead" if verb == "requeue" else job.state in ("waiting", "in_flight")
        try:
            getattr(self.jobs, verb)(offset)
        except DriftQError:
            assert not legal
            return
        assert legal
        if verb == "cancel":
            job.state = "dead"
        else:
            job.state, job.due, job.attempts, job.by_wall = "waiting", self.jobs.now, 0, False

    @rule(ms=st.sampled_from((1, 250, 1_999, 2_000, 61_000)), jitter=st.floats(0, 0.999))
    def wait(self, ms: int, jitter: float) -> None:
        self.jobs.jitter = jitter
        self.jobs.pass_time(ms)
        for offset, job in self.model.items():
            if job.state == "in_flight" and job.until <= self.jobs.now:
                self.failed(offset)

    @rule(by_ms=st.sampled_from((-86_400_000, -90_000, -1, 1, 90_000, 86_400_000)))
    def set_the_wall_clock(self, by_ms: int) -> None:
        self.jobs.wall_ahead_ms += by_ms

    @rule()
    def restart(self) -> None:
        self.jobs.restart()

    @invariant()
    def every_job_is_where_the_model_has_it(self) -> None:
        for offset, job in self.model.items():
            waiting = "scheduled" if self.waited(job) < 0 else "ready"
            assert self.jobs.state(offset) == (waiting if job.state == "waiting" else job.state)
            assert self.jobs.table.attempts[offset] == job.attempts
        held = [job.until for job in self.model.values() if job.state == "in_flight"]
        assert self.jobs.table.next_end() == min(held, default=None)
        assert set(self.jobs.table.grants) == {
            offset for offset, job in self.model.items() if job.state == "in_flight"
        }


@pytest.mark.clause("J1", "J4", "J5", "J7", "J8", "J10", "W9")
def test_any_history() -> None:
    run_state_machine_as_test(
        Histories, settings=settings(max_examples=100, stateful_step_count=40, deadline=None)
    )

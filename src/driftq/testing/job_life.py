"""Callers of jobs: they enqueue batches and wait for the ends of jobs, while the server crashes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from driftq.core.jobs.table import job_offset
from driftq.core.keys import fingerprint
from driftq.errors import DriftQError
from driftq.model.job import JobRequest
from driftq.server.jobs.ends import EndRequest
from driftq.server.jobs.requests import EnqueueRequest
from driftq.testing.check_ends import EndChecker, judge_batch

if TYPE_CHECKING:
    from driftq.testing.work_world import WorkWorld

QUEUE = "mail"


class JobLife:
    """What callers do; workers are in `work_world`."""

    def __init__(self, world: WorkWorld) -> None:
        self._world = world
        self.checker = EndChecker()
        self._batches: list[list[str]] = []
        """The keys of each batch of this life."""
        self._serial = 0

    def step(self) -> None:
        world = self._world
        chance = world.random.random()
        if chance < 0.2:
            self._enqueue_batch()
        elif chance < 0.3 or not world.held_jobs:
            self._wait(world.random.choice(list(world.jobs.jobs)[-8:]) if world.jobs.jobs else None)
        else:
            self._wait_and_end(*world.random.choice(world.held_jobs[-6:]))
        self._judge()

    def _wait_and_end(self, offset: int, token: int) -> None:
        """A caller waits for a job that its worker ends at the same time; another worker asks for work."""
        world = self._world
        self._wait(offset)
        world.run_for(world.random.choice((0, 0, 5)))
        chance = world.random.random()
        if chance < 0.5:
            world.complete(offset, token)
        elif chance < 0.8:
            world.fail(offset, token, retryable=True)
            world.claim(limit=2, lease_ms=1_000, wait_ms=400)
        else:
            world.cancel(offset)

    def _judge(self) -> None:
        world = self._world
        if world.machine.engine.refusal is None and not world.machine.background.committing:
            self.checker.judge(now=world.now)

    def _enqueue_batch(self) -> None:
        world = self._world
        keys = [f"batch-{self._serial}-{number}" for number in range(world.random.randint(2, 5))]
        self._serial += 1
        self._batches.append(keys)
        jobs = [
            JobRequest(
                queue=QUEUE, task="send", payload=msgspec.Raw(b"null"), idempotency_key=key, max_retries=2
            )
            for key in keys
        ]

        def take(answer: Any) -> None:
            if isinstance(answer, list):
                for key, enqueued in zip(keys, answer, strict=True):
                    offset = job_offset(enqueued.job_id)
                    assert offset is not None
                    world.jobs.enqueued(key, offset, max_retries=2)

        world.machine.engine.submit(EnqueueRequest(jobs, world.heard(f"batch {keys[0]}", take)))

    def _wait(self, offset: int | None) -> None:
        world = self._world
        if offset is None:
            return
        until = world.now + world.random.choice((200, 2_000))
        wait = self.checker.asked(offset, until=until, now=world.now)

        def take(answer: Any) -> None:
            if isinstance(answer, DriftQError):
                wait.answered = True
                return
            state = world.machine.engine.state.jobs.state(offset)
            name = None if state is None else state.name.lower()
            self.checker.answered(wait, name, now=world.now)

        reply = world.heard(f"wait for {offset}", take)
        world.machine.engine.submit(EndRequest(offset, until, reply))

    def restarted(self) -> None:
        """The server has started again: a batch is there as a whole or not at all."""
        jobs = self._world.machine.engine.state.jobs
        self.checker.restarted(jobs.state)
        for keys in self._batches:
            judge_batch(keys, [bool(jobs.keys.find(fingerprint(QUEUE, key))) for key in keys])
        self._batches = []

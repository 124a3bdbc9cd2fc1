"""Hooks of jobs and messages: once for each outcome, and a hook that raises changes none."""

from __future__ import annotations

from collections.abc import Iterator
from queue import Empty, SimpleQueue
from typing import Any

import pytest

import driftq
from driftq.testing.embedded import VirtualBroker
from tests.unit.worker.conftest import PATIENCE_S


class Calls:
    """The hooks of a story, and what they were called with."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[str, Any, Any]] = SimpleQueue()

    def declare(self, on: driftq.Jobs | driftq.Worker) -> None:
        on.on_start(lambda context: self._put("start", context))
        on.on_success(lambda context, result: self._put("success", context, result))
        on.on_failure(lambda context, error: self._put("failure", context, str(error)))
        on.on_dead(lambda context, error: self._put("dead", context, str(error)))

    def _put(self, name: str, context: Any, about: Any = None) -> None:
        self._queue.put((name, context.attempt, about))

    def take(self, count: int) -> list[tuple[str, Any, Any]]:
        return [self._queue.get(timeout=PATIENCE_S) for _ in range(count)]

    def left(self) -> list[tuple[str, Any, Any]]:
        return list(self._rest())

    def _rest(self) -> Iterator[tuple[str, Any, Any]]:
        while True:
            try:
                yield self._queue.get_nowait()
            except Empty:
                return


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.mark.clause("J22")
def test_each_outcome_of_a_job_calls_its_hooks_once(broker: VirtualBroker, calls: Calls) -> None:
    jobs = driftq.Jobs(broker)
    calls.declare(jobs)

    @jobs.task(queue="q", retry=driftq.RetryPolicy(max_attempts=2, base=0, cap=0))
    def work(how: str, context: driftq.JobContext) -> str:
        if how == "bad" or (how == "flaky" and context.attempt == 1):
            raise ValueError(how)
        return how

    with jobs:
        work.enqueue("good")
        assert calls.take(2) == [("start", 1, None), ("success", 1, "good")]
        work.enqueue("flaky")
        # A retry may begin before the hook of the failure has been called.
        assert sorted(calls.take(4), key=str) == sorted(
            [
                ("start", 1, None),
                ("failure", 1, "flaky"),
                ("start", 2, None),
                ("success", 2, "flaky"),
            ],
            key=str,
        )
        work.enqueue("bad")
        found = calls.take(5)
        assert sorted(found, key=str) == sorted(
            [
                ("start", 1, None),
                ("failure", 1, "bad"),
                ("start", 2, None),
                ("failure", 2, "bad"),
                ("dead", 2, "bad"),
            ],
            key=str,
        )
        assert found.index(("failure", 2, "bad")) < found.index(("dead", 2, "bad"))
    assert calls.left() == []


@pytest.mark.clause("J22")
def test_a_rejected_job_is_dead_and_its_hooks_say_so(broker: VirtualBroker, calls: Calls) -> None:
    jobs = driftq.Jobs(broker)
    calls.declare(jobs)

    @jobs.task(queue="q")
    def work() -> None:
        raise driftq.Reject("never")

    with jobs:
        work.enqueue()
        assert calls.take(3) == [("start", 1, None), ("failure", 1, "never"), ("dead", 1, "never")]
        broker.jobs.enqueue("q", "work", {"wrong": 1})
        unfit = "the payload does not fit: unexpected: wrong"
        assert calls.take(2) == [("failure", 1, unfit), ("dead", 1, unfit)], "it did not start"


@pytest.mark.clause("J22")
def test_a_hook_that_raises_changes_no_outcome(
    broker: VirtualBroker, calls: Calls, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("the hook is broken")

    jobs = driftq.Jobs(broker, on_start=broken, on_success=broken, on_failure=broken, on_dead=broken)
    calls.declare(jobs)

    @jobs.task(queue="q", max_retries=0)
    def work(*, fails: bool) -> str:
        if fails:
            raise ValueError("no")
        return "done"

    with jobs:
        assert work.enqueue(fails=False).result(timeout=PATIENCE_S) == "done"
        assert calls.take(2) == [("start", 1, None), ("success", 1, "done")]
        failed = work.enqueue(fails=True)
        assert calls.take(3) == [("start", 1, None), ("failure", 1, "no"), ("dead", 1, "no")]
        view = broker.jobs.get(failed.id)
        assert (view.state, view.error, view.attempts) == ("dead", "ValueError: no", 1)
    assert caplog.text.count("the outcome stands") == 5


@pytest.mark.clause("J22")
def test_no_hook_is_called_for_what_the_server_decided(broker: VirtualBroker, calls: Calls) -> None:
    """A lost lease or a cancellation ends the job; the run that goes on has no outcome any more."""
    jobs = driftq.Jobs(broker, lease_ms=1_000)
    calls.declare(jobs)
    started: SimpleQueue[str] = SimpleQueue()
    go_on: SimpleQueue[None] = SimpleQueue()

    @jobs.task(queue="q")
    def work(context: driftq.JobContext) -> str:
        started.put(context.job_id)
        go_on.get(timeout=PATIENCE_S)
        return "too late"

    handle = work.enqueue()
    with jobs:
        assert started.get(timeout=PATIENCE_S) == handle.id
        broker.jobs.cancel(handle.id)
        go_on.put(None)
    assert calls.left() == [("start", 1, None)]
    assert broker.jobs.get(handle.id).error == "cancelled"


@pytest.mark.clause("J22")
def test_metadata_is_in_the_context_of_the_task_and_of_its_hooks(broker: VirtualBroker) -> None:
    seen: SimpleQueue[tuple[str, dict[str, str]]] = SimpleQueue()
    jobs = driftq.Jobs(
        broker,
        on_success=lambda context, _: seen.put((f"{context.queue}/{context.task}", dict(context.metadata))),
    )

    @jobs.task(queue="q")
    def work(context: driftq.JobContext) -> None:
        seen.put(("task", dict(context.metadata)))

    with jobs:
        handle = work.enqueue(metadata={"request": "r-1"})
        assert seen.get(timeout=PATIENCE_S) == ("task", {"request": "r-1"})
        assert seen.get(timeout=PATIENCE_S) == ("q/work", {"request": "r-1"})
    assert broker.jobs.get(handle.id).metadata == {"request": "r-1"}


@pytest.mark.clause("J22")
def test_messages_have_the_same_hooks(broker: VirtualBroker, calls: Calls) -> None:
    broker.create_topic("orders")
    worker = driftq.Worker(broker, group="billing")
    calls.declare(worker)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, concurrency=1)
    def bill(message: driftq.Message, context: driftq.Context) -> str:
        if message.value == "bad":
            raise driftq.Reject("a negative amount")
        if message.value == "flaky" and context.attempt == 1:
            raise driftq.Retry("not now")
        return f"{context.topic} {message.value}"

    with worker:
        broker.produce("orders", "good")
        assert calls.take(2) == [("start", 1, None), ("success", 1, "orders good")]
        broker.produce("orders", "bad")
        assert calls.take(3) == [
            ("start", 1, None),
            ("failure", 1, "a negative amount"),
            ("dead", 1, "a negative amount"),
        ]
        broker.produce("orders", "flaky")
        assert calls.take(2) == [("start", 1, None), ("failure", 1, "not now")]


@pytest.mark.clause("J22")
def test_a_hook_is_a_plain_function(broker: VirtualBroker) -> None:
    jobs = driftq.Jobs(broker)

    async def awaits(context: driftq.JobContext) -> None: ...

    with pytest.raises(driftq.InvalidArgument, match="must be a plain function"):
        jobs.on_start(awaits)

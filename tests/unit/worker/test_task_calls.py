"""Tasks as their callers use them: handles with results, many at once, typed arguments, retry policies."""

from __future__ import annotations

import asyncio
import datetime as dt
from queue import SimpleQueue
from typing import Any

import msgspec
import pytest

import driftq
from driftq.testing.embedded import VirtualBroker
from tests.unit.worker.conftest import PATIENCE_S


class Order(msgspec.Struct):
    id: str
    amount: int


class Refused(Exception):
    """An error of the user's own, which cannot be made from a text alone."""

    def __init__(self, *, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


@pytest.mark.clause("J16")
def test_a_handle_has_the_result_and_everything_that_enqueue_returned(broker: VirtualBroker) -> None:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="sums")
    def add(left: int, right: int) -> dict[str, int]:
        return {"sum": left + right}

    handle = add.enqueue(2, right=3, idempotency_key="sum")
    assert (handle.id, handle.job_id, handle.state, handle.duplicate) == ("job-0", "job-0", "ready", False)
    assert dict(handle)["job_id"] == "job-0"
    assert handle.status() == "ready"
    with pytest.raises(TimeoutError, match="job-0 is ready"):
        handle.result(timeout=0.05)
    with jobs:
        assert handle.result(timeout=PATIENCE_S) == {"sum": 5}
        assert add.enqueue(2, 3, idempotency_key="sum").result(timeout=PATIENCE_S) == {"sum": 5}
    assert handle.status() == "succeeded"


@pytest.mark.clause("J16")
def test_a_dead_job_raises_its_error_under_a_class_that_the_caller_knows(broker: VirtualBroker) -> None:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="q", retry=driftq.RetryPolicy(max_attempts=1, give_up_on=Refused))
    def fail(how: str) -> None:
        if how == "built-in":
            raise ConnectionResetError("gone")
        if how == "own":
            raise Refused(code=7)
        raise driftq.Reject("nobody: has this address")

    with jobs:
        with pytest.raises(ConnectionResetError) as raised:
            fail.enqueue("built-in").result(timeout=PATIENCE_S)
        assert isinstance(raised.value, driftq.JobFailed)
        assert (raised.value.error_class, raised.value.error) == (
            "ConnectionResetError",
            "ConnectionResetError: gone",
        )
        with pytest.raises(Refused) as own:
            fail.enqueue("own").result(timeout=PATIENCE_S)
        assert isinstance(own.value, driftq.JobFailed)
        assert str(own.value).endswith("is dead: Refused: code 7")
        with pytest.raises(driftq.JobFailed) as rejected:
            fail.enqueue("rejected").result(timeout=PATIENCE_S)
        assert (rejected.value.error_class, type(rejected.value)) == ("", driftq.JobFailed)


@pytest.mark.clause("J16")
def test_a_cancelled_job_has_failed_for_those_who_wait(broker: VirtualBroker) -> None:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="q")
    def never() -> None: ...

    handle = never.enqueue(delay=3_600)
    broker.jobs.cancel(handle.id)
    with pytest.raises(driftq.JobFailed, match="cancelled"):
        handle.result(timeout=PATIENCE_S)


@pytest.mark.clause("J17")
def test_many_are_enqueued_in_order_and_wrong_ones_before_any_is(broker: VirtualBroker) -> None:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="q")
    def double(number: int) -> int:
        return 2 * number

    handles = double.enqueue_many([{"number": 1}, (2,), {"number": 3}], metadata={"batch": "b"})
    assert [handle.id for handle in handles] == ["job-0", "job-1", "job-2"]
    with pytest.raises(TypeError, match="double: argument 'number': Expected `int`, got `str`"):
        double.enqueue_many([{"number": 4}, {"number": "five"}])
    with pytest.raises(TypeError, match="neither a mapping of arguments nor a tuple"):
        double.enqueue_many([6])  # type: ignore[list-item]
    again = double.enqueue_many([(7,), (8,)], idempotency_keys=["k7", "k8"])
    with pytest.raises(driftq.InvalidArgument, match="fewer keys"):
        double.enqueue_many([(7,), (8,)], idempotency_keys=["k7"])
    assert double.enqueue_many([(7,)], idempotency_keys=["k7"])[0].id == again[0].id
    with jobs:
        assert [handle.result(timeout=PATIENCE_S) for handle in handles] == [2, 4, 6]
    assert len(broker.jobs.list(queue="q")) == 5
    assert broker.jobs.get("job-0").metadata == {"batch": "b"}


@pytest.mark.clause("J17")
def test_a_refused_job_is_named_by_its_place(broker: VirtualBroker) -> None:
    with pytest.raises(driftq.BatchRefused, match="1 of 3 jobs were refused; job 1") as refused:
        broker.jobs.enqueue_many("q", "t", ["small", "x" * (1 << 20), "small"])
    assert isinstance(refused.value.errors[1], driftq.PayloadTooLarge)
    assert sorted(refused.value.receipts) == [0, 2]


@pytest.mark.clause("J17")
def test_arguments_arrive_as_the_types_that_the_task_names(broker: VirtualBroker) -> None:
    ran: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="q")
    def ship(order: Order, day: dt.date, notes: list[str] | None = None) -> None:
        ran.put((order, day, notes))

    day = dt.date(2026, 11, 18)
    ship.enqueue(Order("o-1", 5), day=day)
    with jobs:
        assert ran.get(timeout=PATIENCE_S) == (Order("o-1", 5), day, None)
    with pytest.raises(TypeError, match="ship: argument 'order'"):
        ship.enqueue(order={"id": "o"}, day=day)
    with pytest.raises(TypeError, match="ship: argument 'day'"):
        ship.enqueue(order=Order("o", 1), day="soon")
    with pytest.raises(TypeError, match="missing a required argument"):
        ship.enqueue(day=day)


@pytest.mark.clause("J17", "J9")
def test_a_payload_that_does_not_fit_is_dead_at_once(broker: VirtualBroker) -> None:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="q", retry=driftq.RetryPolicy(max_attempts=20))
    def ship(order: Order) -> None: ...

    job_id = broker.jobs.enqueue("q", "ship", {"order": {"id": "o", "amount": "many"}}).job_id
    with jobs:
        view = broker.jobs.get(job_id, wait_ms=int(PATIENCE_S * 1000))
    assert (view.state, view.attempts) == ("dead", 1)
    assert view.error == "the payload does not fit: Expected `int`, got `str` - at `$.order.amount`"


@pytest.mark.clause("J14")
def test_the_policy_of_a_task_decides_which_errors_are_retried(broker: VirtualBroker) -> None:
    jobs = driftq.Jobs(broker)
    policy = driftq.RetryPolicy(
        max_attempts=3,
        base=1,
        cap=4,
        jitter="none",
        retry_for=(OSError, LookupError),
        give_up_on=(FileNotFoundError, KeyError),
    )

    @jobs.task(queue="q", retry=policy)
    def fail(how: str) -> None:
        raise {"os": OSError, "file": FileNotFoundError, "index": IndexError, "type": TypeError}[how]("no")

    handles = {how: fail.enqueue(how) for how in ("os", "file", "index", "type")}
    assert broker.jobs.get(handles["os"].id).retry == msgspec.convert(
        {"max_attempts": 3, "base_ms": 1_000, "cap_ms": 4_000, "jitter": "none"},
        type(broker.jobs.get(handles["os"].id).retry),
    )
    with jobs:
        for how in ("file", "type"):
            with pytest.raises(driftq.JobFailed):
                handles[how].result(timeout=PATIENCE_S)
            assert broker.jobs.get(handles[how].id).attempts == 1
        for how in ("os", "index"):
            for _ in range(3):
                _advance_until_tried(broker, handles[how].id)
            with pytest.raises(driftq.JobFailed):
                handles[how].result(timeout=PATIENCE_S)
            assert broker.jobs.get(handles[how].id).attempts == 3


def _advance_until_tried(broker: VirtualBroker, job_id: str) -> None:
    """Wait until the worker has settled its attempt, then let the wait before the next one pass."""
    attempts = broker.jobs.get(job_id).attempts
    for _ in range(2_000):
        view = broker.jobs.get(job_id, wait_ms=5)
        if view.state in ("scheduled", "dead") or view.attempts > attempts:
            break
    broker.advance(ms=4_000)


@pytest.mark.clause("J14")
@pytest.mark.parametrize(
    "policy",
    [
        {"max_attempts": 0},
        {"base": 5, "cap": 1},
        {"base": -1},
        {"jitter": "some"},
        {"backoff_ms": 5},
        {"retry_for": ("OSError",)},
    ],
)
def test_a_policy_that_no_job_can_have_is_refused_when_the_task_is_declared(
    broker: VirtualBroker, policy: dict[str, Any]
) -> None:
    jobs = driftq.Jobs(broker)
    with pytest.raises(driftq.InvalidArgument, match="retry"):
        jobs.task(queue="q", retry=driftq.RetryPolicy(**policy))(lambda: None)


def test_a_policy_of_jobs_is_none_of_messages(broker: VirtualBroker) -> None:
    broker.create_topic("orders")
    with pytest.raises(driftq.InvalidArgument, match="are for jobs"):
        broker.produce("orders", "tea", retry_policy=driftq.RetryPolicy(base=2))
    jobs = driftq.Jobs(broker)
    with pytest.raises(driftq.InvalidArgument, match="give one of them"):
        jobs.task(queue="q", retry=driftq.RetryPolicy(max_attempts=2), max_retries=1)(lambda: None)


@pytest.mark.clause("J16", "J17")
def test_everything_is_awaited_on_a_loop_of_the_callers(broker: VirtualBroker) -> None:
    """The client is a sync one here: its calls run on its own loop, and are awaited on another."""
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="q")
    async def double(number: int) -> int:
        return 2 * number

    async def story() -> list[int]:
        async with jobs:
            first = await double.enqueue_async(1)
            more = await double.enqueue_many_async([(2,), (3,)])
            results = [await handle.result_async(timeout=PATIENCE_S) for handle in (first, *more)]
            assert await first.status_async() == "succeeded"
            return results

    assert asyncio.run(story()) == [2, 4, 6]


@pytest.mark.clause("J17")
def test_jobs_and_workers_take_an_async_client(tmp_path: Any) -> None:
    async def story() -> tuple[int, str]:
        async with await driftq.open_async(tmp_path / "data") as client:
            jobs = driftq.Jobs(client)
            worker = driftq.Worker(client, group="billing")
            handled: asyncio.Queue[str] = asyncio.Queue()
            loop = asyncio.get_running_loop()

            @jobs.task(queue="q")
            def double(number: int, context: driftq.JobContext) -> int:
                context.heartbeat()
                return 2 * number

            @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
            def bill(message: driftq.Message, context: driftq.Context) -> None:
                loop.call_soon_threadsafe(handled.put_nowait, message.value)

            with pytest.raises(driftq.InvalidArgument, match="is an AsyncClient"):
                double.enqueue(1)
            with pytest.raises(driftq.InvalidArgument, match="is an AsyncClient"):
                jobs.start()
            await client.create_topic("orders")
            async with jobs, worker:
                handle = await double.enqueue_async(21)
                await client.produce("orders", "tea")
                result = await handle.result_async(timeout=PATIENCE_S)
                return result, await asyncio.wait_for(handled.get(), PATIENCE_S)

    assert asyncio.run(story()) == (42, "tea")


@pytest.mark.clause("J17")
def test_a_worker_on_a_loop_runs_until_it_is_stopped_or_cancelled(tmp_path: Any) -> None:
    async def story() -> None:
        async with await driftq.open_async(tmp_path / "data") as client:
            jobs = driftq.Jobs(client)

            @jobs.task(queue="q")
            async def nothing() -> None: ...

            running = asyncio.create_task(jobs.run_async())
            await (await nothing.enqueue_async()).result_async(timeout=PATIENCE_S)
            jobs.ask_to_stop()
            await asyncio.wait_for(running, PATIENCE_S)
            running = asyncio.create_task(jobs.run_async())
            await (await nothing.enqueue_async()).result_async(timeout=PATIENCE_S)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    asyncio.run(story())

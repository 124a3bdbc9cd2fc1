"""Jobs and their worker, on a clock that is moved by hand."""

import threading
from queue import SimpleQueue

import pytest

import driftq
from driftq.testing.embedded import VirtualBroker
from tests.unit.worker.conftest import PATIENCE_S


def wait_for_state(broker: VirtualBroker, job_id: str, state: str) -> None:
    for _ in range(2_000):
        if broker.jobs.get(job_id).state == state:
            return
        threading.Event().wait(0.005)
    raise AssertionError(f"{job_id} is {broker.jobs.get(job_id).state}")


@pytest.mark.clause("J1", "J3")
def test_tasks_run_with_their_arguments_sync_or_async(broker: VirtualBroker) -> None:
    ran: SimpleQueue[tuple] = SimpleQueue()
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="mail", max_retries=3)
    def send(to: str, subject: str = "hello") -> str:
        ran.put((to, subject))
        return f"sent to {to}"

    @jobs.task(queue="mail")
    async def archive(to: str, context: driftq.JobContext | None = None) -> None:
        assert context is not None
        context.heartbeat()
        ran.put((to, context.attempt))

    first = send.enqueue(to="a@b.c", priority=5)
    second = archive.enqueue("d@e.f")
    with jobs:
        assert {ran.get(timeout=PATIENCE_S), ran.get(timeout=PATIENCE_S)} == {
            ("a@b.c", "hello"),
            ("d@e.f", 1),
        }
        wait_for_state(broker, first.job_id, "succeeded")
        wait_for_state(broker, second.job_id, "succeeded")
    done, archived = broker.jobs.get(first.job_id), broker.jobs.get(second.job_id)
    assert (done.payload, done.result) == ({"to": "a@b.c"}, "sent to a@b.c")
    assert (archived.payload, archived.result) == ({"to": "d@e.f"}, None)
    assert [job.payload for job in broker.jobs.list(queue="mail")] == [done.payload, archived.payload]
    assert send("x@y.z") == "sent to x@y.z"


@pytest.mark.clause("J1", "J8", "J9")
def test_a_failing_task_is_retried_and_then_dead_until_requeued(broker: VirtualBroker) -> None:
    attempts: SimpleQueue[int] = SimpleQueue()
    jobs = driftq.Jobs(broker)
    broken = True

    @jobs.task(queue="mail", max_retries=1)
    def send(context: driftq.JobContext) -> None:
        attempts.put(context.attempt)
        if broken:
            raise RuntimeError("no connection")

    job_id = send.enqueue().job_id
    with jobs:
        assert attempts.get(timeout=PATIENCE_S) == 1
        wait_for_state(broker, job_id, "scheduled")
        broker.advance(ms=30_000)
        assert attempts.get(timeout=PATIENCE_S) == 2
        wait_for_state(broker, job_id, "dead")
        assert broker.jobs.get(job_id).last_error == "RuntimeError: no connection"
        broken = False
        broker.jobs.requeue(job_id)
        attempts.get(timeout=PATIENCE_S)
        wait_for_state(broker, job_id, "succeeded")


@pytest.mark.clause("J9")
def test_reject_and_a_wrong_payload_are_dead_at_once(broker: VirtualBroker) -> None:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="mail")
    def send(to: str) -> None:
        raise driftq.Reject("nobody has this address")

    rejected = send.enqueue(to="a@b.c")
    wrong = broker.jobs.enqueue("mail", "send", {"address": "a@b.c"})
    with jobs:
        wait_for_state(broker, rejected.job_id, "dead")
        wait_for_state(broker, wrong.job_id, "dead")
    assert broker.jobs.get(rejected.job_id).last_error == "nobody has this address"
    assert {job.job_id for job in broker.jobs.list(state="dead")} == {rejected.job_id, wrong.job_id}


@pytest.mark.clause("J7")
def test_an_old_token_can_neither_complete_nor_heartbeat(broker: VirtualBroker) -> None:
    broker.jobs.enqueue("mail", "send", {}, idempotency_key="once")
    assert broker.jobs.enqueue("mail", "send", {}, idempotency_key="once").duplicate
    (old,) = broker.jobs.claim(["mail"], owner="a", lease_ms=1_000)
    broker.advance(ms=60_000)
    (new,) = broker.jobs.claim(["mail"], owner="b", lease_ms=1_000)
    with pytest.raises(driftq.StaleLease):
        broker.jobs.complete(old, result=1)
    with pytest.raises(driftq.StaleLease):
        broker.jobs.heartbeat(old)
    broker.jobs.heartbeat(new, lease_ms=5_000)
    broker.jobs.complete(new, result=2)
    assert broker.jobs.get(new.job_id).state == "succeeded"


def test_a_scheduled_job_waits_and_can_be_cancelled(broker: VirtualBroker) -> None:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="mail")
    def send(to: str) -> None: ...

    job_id = send.enqueue(to="a", delay=3_600).job_id
    assert broker.jobs.get(job_id).state == "scheduled"
    broker.jobs.cancel(job_id)
    assert broker.jobs.get(job_id).last_error == "cancelled"


def test_what_cannot_be_a_task_is_refused(broker: VirtualBroker) -> None:
    jobs = driftq.Jobs(broker)

    def wrong(priority: int) -> None: ...

    with pytest.raises(driftq.InvalidArgument, match="keyword of enqueue"):
        jobs.task(queue="mail")(wrong)
    with pytest.raises(driftq.InvalidArgument, match="no tasks"):
        jobs.run()

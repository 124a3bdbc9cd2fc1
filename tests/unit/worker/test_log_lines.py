"""What a worker says: at its start, when an attempt fails, and what happens next. Never a key or a value."""

import asyncio
import sys
from collections.abc import Callable
from typing import Any, cast

import pytest

import driftq
from driftq.model import MessageRetryPolicy
from driftq.testing.embedded import VirtualBroker
from driftq.worker.failures import GivenUp, Redelivery, describe, fate_of
from tests.unit.worker.conftest import LogLines

SECRET = "card 4111 1111"


def worker_on_payments(broker: VirtualBroker, handler: Callable[..., Any], **declared: Any) -> driftq.Worker:
    broker.create_topic("payments", partitions=4)
    worker = driftq.Worker(broker, group="billing", owner="ada")
    worker.on("payments", effect=driftq.Effect.IDEMPOTENT, **declared)(handler)
    return worker


def pay(broker: VirtualBroker, **envelope: Any) -> None:
    broker.produce("payments", SECRET, key=SECRET, partition_override=3, **envelope)


def test_a_worker_says_what_it_works_on_when_it_starts_and_when_it_stops(
    broker: VirtualBroker, log: LogLines
) -> None:
    worker = worker_on_payments(broker, lambda message, context: None, concurrency=3, max_attempts=7)
    with worker:
        started = log.wait_for("starts")
    assert started.startswith("INFO worker ada, group billing")
    assert "payments (idempotent, concurrency 3, prefetch 6, max_attempts 7)" in started
    assert log.wait_for("stopped").startswith("INFO worker ada")


@pytest.mark.clause("I8")
def test_a_timeout_in_a_blocking_handler_is_logged_with_the_users_frames(
    broker: VirtualBroker, log: LogLines
) -> None:
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        raise TimeoutError("the bank does not answer")

    with worker_on_payments(broker, charge):
        pay(broker, retry_policy=driftq.RetryPolicy(max_attempts=5, backoff_ms=400))
        line = log.wait_for("failed")
    assert "payments/3 group billing attempt 1 of 5 failed, next in 400 ms to 500 ms (offset 0)" in line
    assert "in charge" in line
    assert "TimeoutError: the bank does not answer" in line
    assert line.startswith("WARNING")


@pytest.mark.clause("I8")
def test_a_timeout_in_an_async_handler_is_logged_with_the_users_frames(
    broker: VirtualBroker, log: LogLines
) -> None:
    async def ask_the_bank() -> None:
        await asyncio.wait_for(asyncio.Event().wait(), 0.001)

    async def charge(message: driftq.Message, context: driftq.Context) -> None:
        await ask_the_bank()

    with worker_on_payments(broker, charge):
        pay(broker)
        line = log.wait_for("failed")
    assert "payments/3 group billing attempt 1 failed, next in 100 ms (offset 0)" in line
    assert "in ask_the_bank" in line


@pytest.mark.clause("D3", "D4")
def test_the_last_attempt_is_said_to_be_given_up_and_where_it_went(
    broker: VirtualBroker, log: LogLines
) -> None:
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        raise RuntimeError("the bank is closed")

    with worker_on_payments(broker, charge):
        pay(broker, retry_policy=driftq.RetryPolicy(max_attempts=1))
        line = log.wait_for("given up")
    assert line.startswith("ERROR payments/3 group billing attempt 1 of 1 failed, given up → dlq.payments/3")
    assert "RuntimeError: the bank is closed" in line


@pytest.mark.clause("D5")
def test_a_rejected_message_is_a_warning_that_names_its_dead_letter_topic(
    broker: VirtualBroker, log: LogLines
) -> None:
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        raise driftq.Reject("no such customer")

    with worker_on_payments(broker, charge):
        pay(broker)
        line = log.wait_for("rejected")
        pay(broker)
        again = log.wait_for("rejected")
    expected = "WARNING payments/3 group billing attempt 1 rejected, given up → dlq.payments/3 (offset {}): "
    assert line == expected.format(0) + "no such customer"
    assert again == expected.format(1) + "no such customer"


@pytest.mark.clause("I8")
def test_keys_and_values_are_in_no_line(broker: VirtualBroker, log: LogLines) -> None:
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        if context.attempt == 1:
            raise driftq.Retry("not yet", after=0.001)
        raise driftq.Reject("never")

    with worker_on_payments(broker, charge):
        pay(broker)
        assert "asked for a retry, next in 1 ms (offset 0): not yet" in log.wait_for("asked for a retry")
        log.wait_for("rejected", moving=broker)
    log.wait_for("stopped")
    assert not [line for line in log.seen if SECRET in line]


def test_a_handler_that_exits_fails_its_message_and_not_the_client(
    broker: VirtualBroker, log: LogLines
) -> None:
    async def leave(message: driftq.Message, context: driftq.Context) -> None:
        if context.attempt == 1:
            sys.exit(3)
        raise asyncio.CancelledError

    with worker_on_payments(broker, leave):
        pay(broker)
        assert "SystemExit: 3" in log.wait_for("attempt 1 failed")
        assert "CancelledError" in log.wait_for("attempt 2 failed", moving=broker)
    assert broker.topics()


@pytest.mark.clause("J9")
def test_jobs_say_what_they_work_on_and_what_failed(broker: VirtualBroker, log: LogLines) -> None:
    jobs = driftq.Jobs(broker, owner="ada", concurrency=2)

    @jobs.task(queue="mail")
    def send(to: str) -> None:
        if to == "nobody":
            raise driftq.Reject("nobody has this address")
        raise TimeoutError("no connection")

    with jobs:
        started = log.wait_for("starts")
        send.enqueue(to=SECRET)
        failed = log.wait_for("failed")
        send.enqueue(to="nobody")
        rejected = log.wait_for("rejected")
        broker.jobs.enqueue("mail", "sned", {"to": SECRET})
        unknown = log.wait_for("unknown")
    assert started.startswith("INFO jobs worker ada")
    assert started.endswith(": mail (send), concurrency 2: starts")
    assert failed.startswith("WARNING mail/job-0 task send attempt 1 failed")
    assert "in send" in failed
    assert rejected == "WARNING mail/job-1 task send attempt 1 rejected, dead: nobody has this address"
    assert unknown.startswith("ERROR mail/job-2 task sned attempt 1 is unknown")
    assert unknown.endswith("it knows send")
    assert not [line for line in log.seen if SECRET in line]


@pytest.mark.clause("J9")
def test_a_task_that_exits_fails_its_job_and_not_its_worker(broker: VirtualBroker, log: LogLines) -> None:
    jobs = driftq.Jobs(broker, concurrency=1)

    @jobs.task(queue="mail", max_retries=0)
    def leave() -> None:
        sys.exit(3)

    @jobs.task(queue="mail", max_retries=0)
    async def leave_awaiting() -> None:
        sys.exit(4)

    with jobs:
        for task, code in ((leave, 3), (leave_awaiting, 4), (leave, 3)):
            task.enqueue()
            assert f"SystemExit: {code}" in log.wait_for("failed")


@pytest.mark.clause("D4")
def test_a_dead_letter_topic_with_fewer_partitions_is_named_with_the_partition_that_it_has(
    broker: VirtualBroker, log: LogLines
) -> None:
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        raise driftq.Reject("no such customer")

    broker.create_topic("payments", partitions=1)
    first = driftq.Worker(broker, group="billing")
    first.on("payments", effect=driftq.Effect.IDEMPOTENT)(charge)
    with first:
        broker.produce("payments", "one")
        log.wait_for("given up → dlq.payments/0")
    broker.call("DELETE", "/v1/topics/payments")
    with worker_on_payments(broker, charge):
        pay(broker)
        log.wait_for("payments/3 group billing attempt 1 rejected, given up → dlq.payments/0")


class Failing:
    """A delivery as the log sees it."""

    def __init__(self, topic: str, attempt: int, *, tries: int | None = None, **policy: int) -> None:
        self.tries = attempt if tries is None else tries
        self.topic, self.attempt, self.partition, self.offset, self.group = topic, attempt, 3, 17, "billing"
        self.envelope = driftq.Envelope(retry_policy=MessageRetryPolicy(**policy) if policy else None)


@pytest.mark.clause("D2", "D3", "D7")
@pytest.mark.parametrize(
    ("delivery", "error", "limit", "fate"),
    [
        (Failing("payments", 1), ValueError(), None, Redelivery(100, 100)),
        (Failing("payments", 3), ValueError(), None, Redelivery(400, 400)),
        (Failing("payments", 30), ValueError(), None, Redelivery(5_000, 5_000)),
        (Failing("payments", 2, backoff_ms=200), ValueError(), None, Redelivery(400, 500)),
        (
            Failing("payments", 9, backoff_ms=200, max_backoff_ms=1_000),
            ValueError(),
            None,
            Redelivery(750, 1_000),
        ),
        (Failing("payments", 1), driftq.Retry(after=60), None, Redelivery(60_000, 60_000)),
        (Failing("payments", 1, backoff_ms=200), driftq.Retry(after=60), None, Redelivery(60_200, 60_250)),
        (Failing("payments", 1), driftq.Reject("no"), None, GivenUp(by_worker=True)),
        (Failing("payments", 2), ValueError(), 2, GivenUp(by_worker=True)),
        (Failing("payments", 2, max_attempts=2), ValueError(), 5, GivenUp(by_worker=False)),
        (Failing("payments", 2, max_attempts=3), ValueError(), 5, Redelivery(200, 200)),
        (Failing("payments", 9, tries=1, max_attempts=3), ValueError(), 5, Redelivery(100, 100)),
        (Failing("payments", 9, tries=5), ValueError(), 5, GivenUp(by_worker=True)),
        (Failing("dlq.payments", 2, max_attempts=2), driftq.Reject("no"), 1, Redelivery(200, 200)),
    ],
)
def test_what_follows_a_failure_is_known_as_the_broker_decides_it(
    delivery: Any, error: Exception, limit: int | None, fate: Redelivery | GivenUp
) -> None:
    assert fate_of(delivery, error, max_attempts=limit) == fate


def test_a_limit_is_said_only_while_it_counts() -> None:
    within, beyond, dead = (
        Failing("a", 2, max_attempts=5),
        Failing("a", 6, max_attempts=5),
        Failing("dlq.a", 2),
    )
    assert describe(cast("Any", within), "failed") == "a/3 group billing attempt 2 of 5 failed (offset 17)"
    after_reset = cast("Any", Failing("a", 9, tries=2, max_attempts=5))
    assert describe(after_reset, "failed") == "a/3 group billing attempt 9, try 2 of 5, failed (offset 17)"
    assert describe(cast("Any", beyond), "failed") == "a/3 group billing attempt 6 failed (offset 17)"
    assert describe(cast("Any", dead), "failed", max_attempts=3).startswith(
        "dlq.a/3 group billing attempt 2 fai"
    )

"""What is wrong with a worker is said when it is declared or started, not after its first message."""

import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import driftq
from driftq.testing.embedded import VirtualBroker
from tests.unit.worker.conftest import LogLines, Mailbox
from tests.unit.worker.test_worker import wait_for_dead_letter, wait_for_topic


def no_context(message: driftq.Message) -> None: ...


def one_too_many(message: driftq.Message, context: driftq.Context, client: driftq.Client) -> None: ...


def by_name_only(*, message: driftq.Message, context: driftq.Context) -> None: ...


async def yields(message: driftq.Message, context: driftq.Context) -> AsyncIterator[int]:
    yield 1


@pytest.mark.clause("I8")
@pytest.mark.parametrize("handler", [no_context, one_too_many, by_name_only])
def test_a_handler_with_another_signature_is_refused_by_a_sentence(
    broker: VirtualBroker, handler: Callable[..., Any]
) -> None:
    worker = driftq.Worker(broker, group="billing")
    with pytest.raises(driftq.InvalidArgument) as refused:
        worker.on("orders", effect=driftq.Effect.IDEMPOTENT)(handler)
    assert handler.__name__ in refused.value.message
    assert "(message: driftq.Message, context: driftq.Context)" in refused.value.message


def test_a_generator_is_neither_a_handler_nor_a_task(broker: VirtualBroker) -> None:
    with pytest.raises(driftq.InvalidArgument, match="yields is a generator"):
        driftq.Worker(broker, group="billing").on("orders", effect=driftq.Effect.IDEMPOTENT)(yields)
    with pytest.raises(driftq.InvalidArgument, match="task: yields is a generator"):
        driftq.Jobs(broker).task(queue="mail")(yields)


def test_a_task_whose_arguments_nobody_can_tell_is_refused(broker: VirtualBroker) -> None:
    with pytest.raises(driftq.InvalidArgument, match="use a plain function"):
        driftq.Jobs(broker).task(queue="mail", name="max")(max)


class Charge:
    async def __call__(self, message: driftq.Message, context: driftq.Context) -> str:
        return "by an object"


def with_default(message: driftq.Message, context: driftq.Context, rate: float = 1.0) -> str:
    return "by default"


def first_bound(client: str, message: driftq.Message, context: driftq.Context) -> str:
    return client


@pytest.mark.clause("I8")
@pytest.mark.parametrize(
    ("handler", "result"),
    [
        (Charge(), "by an object"),
        (with_default, "by default"),
        (functools.partial(first_bound, "by a partial"), "by a partial"),
        (lambda *args: "by a lambda", "by a lambda"),
    ],
)
def test_whatever_takes_a_message_and_a_context_is_a_handler(
    broker: VirtualBroker, mailbox: Mailbox, handler: Callable[..., Any], result: str
) -> None:
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)
    worker.on("orders", effect=driftq.Effect.IDEMPOTENT)(handler)
    with worker:
        broker.produce("orders", "one")
        assert mailbox.next().result == result


def test_a_coroutine_that_nobody_awaits_is_not_taken_for_success(
    broker: VirtualBroker, log: LogLines
) -> None:
    worker = driftq.Worker(broker, group="billing")
    worker.on("orders", effect=driftq.Effect.IDEMPOTENT)(lambda message, context: Charge()(message, context))
    with worker:
        broker.produce("orders", "one")
        assert "declare it with async def" in log.wait_for("failed")


@pytest.mark.clause("I8")
def test_a_missing_topic_is_an_error_in_the_log_at_once_and_raised_by_stop(
    broker: VirtualBroker, log: LogLines
) -> None:
    worker = driftq.Worker(broker, group="billing", owner="ada")
    worker.on("missing", effect=driftq.Effect.IDEMPOTENT)(lambda message, context: None)
    worker.start()
    line = log.wait_for("ended")
    assert line.startswith("ERROR worker ada")
    assert "topic 'missing' does not exist; create it" in line
    with pytest.raises(driftq.TopicNotFound):
        worker.stop()


def test_a_worker_that_ended_can_be_started_again(broker: VirtualBroker, mailbox: Mailbox) -> None:
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)
    worker.on("late", effect=driftq.Effect.IDEMPOTENT)(lambda message, context: "done")
    with pytest.raises(driftq.TopicNotFound):
        worker.run()
    broker.create_topic("late")
    broker.produce("late", "one")
    with worker:
        assert mailbox.next().result == "done"


@pytest.mark.clause("D5")
def test_a_handlers_own_limit_makes_a_dead_letter_where_the_message_has_no_policy(
    broker: VirtualBroker, log: LogLines
) -> None:
    worker = driftq.Worker(broker, group="billing")

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, max_attempts=2)
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        raise RuntimeError("the bank is closed")

    with worker:
        broker.produce("orders", "one")
        log.wait_for("attempt 1 of 2 failed, next in 100 ms")
        log.wait_for("attempt 2 of 2 failed, given up → dlq.orders/0", moving=broker)
        wait_for_topic(broker, "dlq.orders")
        letter = wait_for_dead_letter(broker)
    assert letter == {"error": "RuntimeError: the bank is closed", "reason": "not_retryable"}


@pytest.mark.clause("D3")
def test_of_two_limits_the_smaller_counts(broker: VirtualBroker, log: LogLines) -> None:
    worker = driftq.Worker(broker, group="billing")

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, max_attempts=5)
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        raise driftq.Retry("not yet", after=600)

    with worker:
        broker.produce("orders", "one", retry_policy=driftq.RetryPolicy(max_attempts=1))
        log.wait_for("attempt 1 of 1 asked for a retry, given up → dlq.orders/0")
        wait_for_topic(broker, "dlq.orders")
        assert wait_for_dead_letter(broker) == {"error": "not yet", "reason": "max_attempts"}


def test_a_limit_of_no_attempt_is_refused(broker: VirtualBroker) -> None:
    with pytest.raises(driftq.InvalidArgument, match="max_attempts: must be at least 1"):
        driftq.Worker(broker, group="billing").on("orders", effect=driftq.Effect.IDEMPOTENT, max_attempts=0)

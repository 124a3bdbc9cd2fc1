"""Handlers of messages, on a clock that is moved by hand."""

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

import driftq
from driftq.made_up_key import MADE_UP_PREFIX
from driftq.testing.embedded import VirtualBroker
from driftq.worker.scope import effect_key
from tests.unit.worker.conftest import PATIENCE_S, Mailbox

LEASE_MS = 30_000


def dead_letters(broker: VirtualBroker) -> list[dict]:
    return broker.call("GET", "/v1/dlq/orders")["messages"] if "dlq.orders" in broker.topics() else []


def wait_for_dead_letter(broker: VirtualBroker) -> dict:
    with broker.consume("dlq.orders", "watch") as letters:
        (letter,) = letters.take(1, within_s=PATIENCE_S)
        return {"error": letter.envelope.dlq.last_error, "reason": letter.envelope.dlq.reason}  # type: ignore[union-attr]


@pytest.mark.clause("I8", "I6", "I7")
def test_a_handler_runs_its_result_is_stored_and_a_duplicate_gets_it(
    broker: VirtualBroker, mailbox: Mailbox
) -> None:
    runs: Counter[str] = Counter()
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
    def charge(message: driftq.Message, context: driftq.Context) -> dict:
        runs[message.value] += 1
        assert (context.attempt, context.token > 0) == (1, True)
        return {"charged": message.json()["id"]}

    with worker:
        broker.produce("orders", {"id": 1}, idempotency_key="order-1")
        first = mailbox.next()
    assert (first.result, first.duplicate) == ({"charged": 1}, False)
    status = broker.idempotency.status(topic="orders", group="billing", idempotency_key="order-1")
    assert (status.status, status.result) == ("COMMITTED", {"charged": 1})

    broker.call("POST", "/v1/topics/orders/groups/billing/reset", body={"to": "earliest"})
    with worker:
        second = mailbox.next()
    assert (second.result, second.duplicate) == ({"charged": 1}, True)
    assert runs == {'{"id":1}': 1}


@pytest.mark.clause("I8", "A5")
def test_a_failed_handler_is_nacked_and_runs_again_after_its_backoff(
    broker: VirtualBroker, mailbox: Mailbox
) -> None:
    seen: list[tuple[int, str]] = []
    failed = threading.Event()
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
    async def charge(message: driftq.Message, context: driftq.Context) -> str:
        seen.append((context.attempt, context.last_error))
        if context.attempt == 1:
            failed.set()
            raise RuntimeError("the bank is closed")
        return "done"

    with worker:
        broker.produce("orders", {"id": 1}, retry_policy=driftq.RetryPolicy(backoff_ms=20_000))
        assert failed.wait(PATIENCE_S)
        wait_until_idle(broker)
        broker.advance(ms=26_000)
        assert mailbox.next().result == "done"
    assert seen == [(1, ""), (2, "RuntimeError: the bank is closed")]


def wait_until_idle(broker: VirtualBroker, group: str = "billing") -> None:
    """Until the group holds nothing: what was handled is settled."""
    for _ in range(2_000):
        if not any(one.in_flight for one in broker.topic("orders").groups if one.group == group):
            return
        threading.Event().wait(0.005)
    raise AssertionError("still in flight")


@pytest.mark.clause("D5", "I8")
def test_reject_goes_to_the_dead_letters_at_once(broker: VirtualBroker) -> None:
    worker = driftq.Worker(broker, group="billing")

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
    def charge(message: driftq.Message, context: driftq.Context) -> None:
        raise driftq.Reject("no such customer")

    with worker:
        broker.produce("orders", {"id": 1})
        wait_for_topic(broker, "dlq.orders")
        assert wait_for_dead_letter(broker) == {"error": "no such customer", "reason": "not_retryable"}


def wait_for_topic(broker: VirtualBroker, name: str) -> None:
    for _ in range(2_000):
        if name in broker.topics():
            return
        threading.Event().wait(0.005)
    raise AssertionError(f"no topic {name}")


@pytest.mark.clause("I8")
def test_retry_comes_not_sooner_than_it_asked(broker: VirtualBroker, mailbox: Mailbox) -> None:
    attempts: list[int] = []
    asked = threading.Event()
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT)
    def charge(message: driftq.Message, context: driftq.Context) -> int:
        attempts.append(context.attempt)
        if context.attempt == 1:
            asked.set()
            raise driftq.Retry("not yet", after=600)
        return context.attempt

    with worker:
        broker.produce("orders", {"id": 1}, idempotency_key="k")
        assert asked.wait(PATIENCE_S)
        for _ in range(2_000):
            if broker.idempotency.status(topic="orders", group="billing", idempotency_key="k").last_error:
                break
        threading.Event().wait(0.1)  # The lease is set to what was asked.
        broker.advance(ms=599_000)
        assert attempts == [1]
        broker.advance(ms=2_000)
        assert mailbox.next().result == 2


@pytest.mark.clause("K6", "I6")
def test_an_unknown_effect_that_was_cut_off_is_reported_and_runs_only_once_resolved(
    broker: VirtualBroker, mailbox: Mailbox
) -> None:
    name: dict[str, Any] = {"topic": "orders", "group": "billing", "idempotency_key": "order-1"}
    broker.produce("orders", {"id": 1}, idempotency_key="order-1")
    begun = broker.idempotency.begin(**name, owner="crashed", lease_ms=1_000)
    assert isinstance(begun, driftq.Begun)
    broker.advance(ms=2_000)  # Whoever began it never came back.
    ran: list[int] = []
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.UNKNOWN)
    def charge(message: driftq.Message, context: driftq.Context) -> str:
        ran.append(context.offset)
        return "charged"

    with worker:
        wait_for_topic(broker, "dlq.orders")
        letter = wait_for_dead_letter(broker)
    assert letter["error"].startswith("effect unknown: begun by crashed")
    assert (ran, worker.unknown) == ([], 1)

    broker.advance(ms=100)
    assert broker.idempotency.resolve(**name, by="ada", happened=False) is None
    broker.call("POST", "/v1/dlq/orders/redrive", body={})
    with worker:
        assert mailbox.next().result == "charged"
    assert len(ran) == 1


@pytest.mark.clause("I10")
def test_a_step_runs_once_and_its_retry_gets_the_stored_result(
    broker: VirtualBroker, mailbox: Mailbox
) -> None:
    ran: list[str] = []
    worker = driftq.Worker(broker, group="agent", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, steps=True)
    def step(message: driftq.Message, context: driftq.Context) -> dict:
        assert context.envelope.run_id == context.run_id
        ran.append(f"{context.run_id}/{context.step_id}")
        return {"tokens": 7}

    with worker:
        for _ in range(2):
            broker.produce("orders", "plan", run_id="run-1", step_id="plan", retries=0)
        settled = [mailbox.next(), mailbox.next()]  # The second may be acked before the first one is.
    assert ran == ["run-1/plan"]
    assert sorted(one.duplicate for one in settled) == [False, True]
    assert [one.result for one in settled] == [{"tokens": 7}] * 2


@pytest.mark.clause("I10", "P7")
def test_a_step_runs_once_with_an_ordinary_produce_whose_key_the_client_made_up(
    broker: VirtualBroker, mailbox: Mailbox
) -> None:
    ran: list[str] = []
    worker = driftq.Worker(broker, group="agent", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, steps=True)
    def step(message: driftq.Message, context: driftq.Context) -> str:
        ran.append(context.step_id)
        return context.step_id

    with worker:
        for _ in range(2):
            broker.produce("orders", "plan", run_id="run-1", step_id="plan")
        broker.produce_many("orders", ["plan"], run_id="run-1", step_id="plan")
        plans = [mailbox.next() for _ in range(3)]
        broker.produce("orders", "plan", run_id="run-1", step_id="plan", idempotency_key="on purpose")
        own = mailbox.next()
    assert sorted(one.duplicate for one in plans) == [False, True, True]
    assert (own.duplicate, ran) == (False, ["plan", "plan"]), "a key of the caller's is an identity"


@pytest.mark.clause("I10", "D6")
def test_a_redriven_step_is_still_the_step(broker: VirtualBroker, mailbox: Mailbox) -> None:
    """The made-up key is known as such behind the dead letter, too."""
    broken, ran = True, []
    worker = driftq.Worker(broker, group="agent", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, steps=True)
    def step(message: driftq.Message, context: driftq.Context) -> str:
        if broken:
            raise driftq.Reject("no model today")
        ran.append(context.offset)
        return "planned"

    with worker:
        broker.produce("orders", "plan", run_id="run-1", step_id="plan")
        wait_for_topic(broker, "dlq.orders")
        broken = False
        broker.produce("orders", "plan", run_id="run-1", step_id="plan")
        assert mailbox.next().duplicate is False
        broker.call("POST", "/v1/dlq/orders/redrive", body={})
        redriven = mailbox.next()
    assert (redriven.duplicate, redriven.result, len(ran)) == (True, "planned", 1)


@pytest.mark.clause("I10", "P7")
@pytest.mark.parametrize(
    ("key", "steps", "known_by"),
    [
        ("order-1", True, "order-1"),
        ("order-1", False, "order-1"),
        (MADE_UP_PREFIX + "x-1", True, "step:run-1/plan"),
        (MADE_UP_PREFIX + "x-1", False, MADE_UP_PREFIX + "x-1"),
        (None, True, "step:run-1/plan"),
        (None, False, ""),
    ],
)
def test_an_effect_is_known_by_the_callers_key_then_its_step_then_a_made_up_key(
    key: str | None, steps: bool, known_by: str
) -> None:
    envelope = driftq.Envelope(run_id="run-1", step_id="plan", idempotency_key=key)
    assert effect_key(envelope, steps=steps) == known_by
    without_step = driftq.Envelope(run_id="run-1", idempotency_key=key)
    assert effect_key(without_step, steps=steps) == (key or "")


@pytest.mark.clause("I9")
def test_a_message_whose_effect_is_committed_is_settled_when_its_lease_ends(broker: VirtualBroker) -> None:
    broker.produce("orders", {"id": 1}, idempotency_key="order-1")
    with broker.consume("orders", "billing", owner="w", lease_ms=1_000) as deliveries:
        deliveries.take(1, within_s=PATIENCE_S)
        begun = broker.idempotency.begin(
            topic="orders", group="billing", idempotency_key="order-1", owner="w", lease_ms=1_000
        )
        assert isinstance(begun, driftq.Begun)
        broker.idempotency.mark_success(begun, result="done")
        broker.advance(ms=5_000)
        assert deliveries.take(1, within_s=0.2) == []
    assert sum(group.lag for group in broker.topic("orders").groups) == 0


@pytest.mark.clause("A7", "I6")
def test_a_holder_whose_lease_lapsed_can_no_longer_finish(broker: VirtualBroker) -> None:
    name: dict[str, Any] = {"topic": "orders", "group": "billing", "idempotency_key": "k"}
    old = broker.idempotency.begin(**name, owner="a", lease_ms=1_000)
    assert isinstance(broker.idempotency.begin(**name, owner="b", lease_ms=1_000), driftq.Held)
    broker.advance(ms=1_001)
    new = broker.idempotency.begin(**name, owner="b", lease_ms=1_000)
    assert isinstance(old, driftq.Begun)
    assert isinstance(new, driftq.Begun)
    assert new.token > old.token
    with pytest.raises(driftq.EffectSuperseded):
        broker.idempotency.mark_success(old)
    broker.idempotency.extend(new, lease_ms=5_000)
    broker.advance(ms=4_999)
    assert isinstance(broker.idempotency.begin(**name, owner="c", lease_ms=1_000), driftq.Held)
    broker.idempotency.mark_failure(new, error="no")
    assert broker.idempotency.status(**name).last_error == "no"


def test_stop_finishes_what_runs_and_gives_back_what_waits(broker: VirtualBroker, mailbox: Mailbox) -> None:
    running, go_on = threading.Event(), threading.Event()
    worker = driftq.Worker(broker, group="billing", on_settled=mailbox.put)

    @worker.on("orders", effect=driftq.Effect.IDEMPOTENT, concurrency=1, prefetch=2)
    async def charge(message: driftq.Message, context: driftq.Context) -> str:
        running.set()
        await asyncio.to_thread(go_on.wait, PATIENCE_S)
        return message.value

    worker.start()
    broker.produce_many("orders", ["first", "second"])
    assert running.wait(PATIENCE_S)
    worker.ask_to_stop()
    go_on.set()
    worker.stop()
    assert mailbox.next().result == "first"
    broker.advance(ms=2)
    with broker.consume("orders", "billing") as deliveries:
        assert [one.value for one in deliveries.take(1, within_s=PATIENCE_S)] == ["second"]


def test_what_cannot_work_is_refused_when_it_is_declared(broker: VirtualBroker) -> None:
    worker = driftq.Worker(broker, group="billing")
    with pytest.raises(driftq.InvalidArgument, match="needs a registry"):
        worker.on("orders", effect=driftq.Effect.TRANSACTIONAL)(lambda message, context: None)
    with pytest.raises(driftq.InvalidArgument, match="no handlers"):
        worker.run()
    worker.on("missing", effect=driftq.Effect.IDEMPOTENT)(lambda message, context: None)
    with pytest.raises(driftq.TopicNotFound):
        worker.run()

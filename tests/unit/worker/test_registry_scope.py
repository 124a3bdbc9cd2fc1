"""Effects on the record of a registry: one scope, and nothing is charged while it or its holder is away."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

import driftq
from driftq.errors import DatabaseUnavailable
from driftq.registry import Claim, ClaimState, Effect, EventKey, Handler
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Transaction, open_database
from driftq.testing.clock import VirtualClock
from driftq.testing.embedded import VirtualBroker
from tests.unit.worker.conftest import PATIENCE_S, Mailbox

AWAY = DatabaseUnavailable("sqlite", cause="pulled out")
RESET = "/v1/topics/orders/groups/billing/reset"


class Flaky(SqlRegistry):
    """Is away for the next few calls; `asked` says which were made."""

    def __init__(self, folder: Path, clock: VirtualClock) -> None:
        super().__init__(open_database(f"sqlite:///{folder}/registry.db", clock=clock))
        self.away: dict[str, int] = {}
        self.asked: list[str] = []

    def _ask(self, name: str) -> None:
        self.asked.append(name)
        if self.away.get(name):
            self.away[name] -= 1
            raise AWAY

    def claim(self, handler: Any, event: Any) -> Claim:
        self._ask("claim")
        return super().claim(handler, event)

    def mark_done(self, claim: Claim, **named: Any) -> None:
        self._ask("mark_done")
        super().mark_done(claim, **named)

    @contextmanager
    def apply(self, claim: Claim) -> Iterator[Transaction]:
        with super().apply(claim) as transaction:
            yield transaction
            self._ask("apply")
        self._ask("answer")


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def registry(tmp_path: Path, clock: VirtualClock) -> Iterator[Flaky]:
    registry = Flaky(tmp_path, clock)
    with registry.database.transaction() as transaction:
        transaction.connection.execute(text("CREATE TABLE effects (name TEXT)"))
    yield registry
    registry.database.close()


def effects(registry: SqlRegistry) -> list[str]:
    with registry.database.snapshot() as transaction:
        return [row.name for row in transaction.connection.execute(text("SELECT name FROM effects"))]


def perform(message: driftq.Message, context: driftq.Context) -> dict:
    if context.transaction is not None:
        insert = text("INSERT INTO effects (name) VALUES (:name)")
        context.transaction.connection.execute(insert, {"name": message.value})
    return {"did": message.value, "attempt": context.attempt}


async def perform_awaiting(message: driftq.Message, context: driftq.Context) -> dict:
    return perform(message, context)


@pytest.mark.clause("I8")
@pytest.mark.parametrize(
    ("effect", "handler"),
    [
        (Effect.TRANSACTIONAL, perform),
        (Effect.IDEMPOTENT, perform_awaiting),
        (Effect.UNKNOWN, perform),
    ],
)
def test_a_duplicate_gets_what_the_registry_kept_and_the_broker_knows_of_no_effect(
    broker: VirtualBroker, mailbox: Mailbox, registry: Flaky, effect: Effect, handler: Any
) -> None:
    worker = driftq.Worker(broker, group="billing", registry=registry, on_settled=mailbox.put)
    worker.on("orders", effect=effect)(handler)
    with worker:
        broker.produce("orders", "one", idempotency_key="k")
        first = mailbox.next()
    broker.call("POST", RESET, body={"to": "earliest"})
    with worker:
        second = mailbox.next()
    assert first.result == second.result == {"did": "one", "attempt": 1}
    assert (first.duplicate, second.duplicate) == (False, True)
    assert effects(registry) == (["one"] if effect is Effect.TRANSACTIONAL else [])
    with pytest.raises(driftq.EffectNotFound):
        broker.idempotency.status(topic="orders", group="billing", idempotency_key="k")


@pytest.mark.clause("I6", "I8", "I1")
def test_tenants_and_requested_topics_do_not_share_effects(
    broker: VirtualBroker, mailbox: Mailbox, registry: Flaky
) -> None:
    broker.create_topic("asked")
    worker = driftq.Worker(broker, group="billing", registry=registry, on_settled=mailbox.put)
    worker.on("orders", effect=Effect.TRANSACTIONAL)(perform)
    with worker:
        broker.produce("orders", "plain", idempotency_key="k")
        broker.produce("orders", "of a", idempotency_key="k", tenant_id="a")
        broker.produce("orders", "like of a", idempotency_key='["a","orders","k"]')
        broker.produce("asked", "rerouted", idempotency_key="k", target_topic="orders")
        settled = [mailbox.next() for _ in range(4)]
    assert not any(one.duplicate for one in settled)
    assert sorted(effects(registry)) == ["like of a", "of a", "plain", "rerouted"]


@pytest.mark.clause("K7", "I8")
@pytest.mark.parametrize("effect", [Effect.TRANSACTIONAL, Effect.IDEMPOTENT])
def test_while_the_registry_is_away_nothing_is_charged_and_then_it_goes_on(
    broker: VirtualBroker, mailbox: Mailbox, registry: Flaky, effect: Effect
) -> None:
    """`answer`: the transaction was committed, and the connection lost before we heard of it."""
    registry.away = {"claim": 2, "mark_done": 2, "apply": 1, "answer": 1}
    once = driftq.RetryPolicy(max_attempts=1)
    worker = driftq.Worker(broker, group="billing", registry=registry, on_settled=mailbox.put)
    worker.on("orders", effect=effect)(perform)
    with worker:
        broker.produce("orders", "one", idempotency_key="k", retry_policy=once)
        settled = mailbox.next()
    assert settled.result == {"did": "one", "attempt": 1}
    assert "dlq.orders" not in broker.topics()
    if effect is Effect.TRANSACTIONAL:
        assert effects(registry) == ["one"]
        assert registry.asked.count("apply") == 2
        assert settled.duplicate, "the second look found it done"


@pytest.mark.clause("K7")
def test_a_registry_that_is_away_refuses_the_start(broker: VirtualBroker, registry: Flaky) -> None:
    def check() -> None:
        raise AWAY

    registry.check = check  # type: ignore[method-assign]
    worker = driftq.Worker(broker, group="billing", registry=registry)
    worker.on("orders", effect=Effect.IDEMPOTENT)(perform)
    with pytest.raises(DatabaseUnavailable):
        worker.start()


@pytest.mark.clause("K3", "K6", "I8")
@pytest.mark.parametrize("effect", [Effect.TRANSACTIONAL, Effect.UNKNOWN])
def test_what_somebody_else_holds_waits_uncharged_until_that_lease_is_over(
    broker: VirtualBroker, mailbox: Mailbox, registry: Flaky, clock: VirtualClock, effect: Effect
) -> None:
    event = EventKey("k", "orders", "k", 1)
    assert registry.claim(Handler("billing/orders", effect, lease_ms=60_000), event).granted
    worker = driftq.Worker(broker, group="billing", registry=registry, on_settled=mailbox.put)
    worker.on("orders", effect=effect)(perform)
    registry.asked.clear()
    with worker:
        policy = driftq.RetryPolicy(max_attempts=1)
        broker.produce("orders", "one", idempotency_key="k", retry_policy=policy)
        until(lambda: len(registry.asked) >= 2)  # It has asked, was told to wait, and asked again.
        clock.advance(ms=60_001)  # Whoever held it never came back.
        if effect is Effect.TRANSACTIONAL:
            assert mailbox.next().result == {"did": "one", "attempt": 1}
            return
        until(lambda: "dlq.orders" in broker.topics())
    assert registry.find("billing/orders", "k").state is ClaimState.UNKNOWN
    (letter,) = broker.call("GET", "/v1/dlq/orders")["messages"]
    assert letter["envelope"]["dlq"]["last_error"].startswith("effect unknown: it is recorded")
    assert worker.unknown == 1


def until(holds: Any) -> None:
    for _ in range(int(PATIENCE_S / 0.01)):
        if holds():
            return
        threading.Event().wait(0.01)
    raise AssertionError("it did not happen")


@pytest.mark.clause("I8", "D5")
def test_a_message_whose_effect_cannot_be_put_on_record_is_a_dead_letter(
    broker: VirtualBroker, registry: Flaky
) -> None:
    worker = driftq.Worker(broker, group="billing", registry=registry)
    worker.on("orders", effect=Effect.TRANSACTIONAL)(perform)
    with worker:
        broker.produce("orders", "no key", retries=0)
        until(lambda: "dlq.orders" in broker.topics())
    (letter,) = broker.call("GET", "/v1/dlq/orders")["messages"]
    assert "needs an idempotency key" in letter["envelope"]["dlq"]["last_error"]
    assert effects(registry) == []


def test_names_too_long_for_a_registry_are_refused_when_declared(
    broker: VirtualBroker, registry: Flaky
) -> None:
    worker = driftq.Worker(broker, group="g" * 200, registry=registry)
    with pytest.raises(driftq.InvalidArgument, match="245 bytes"):
        worker.on("t" * 45, effect=Effect.IDEMPOTENT)(perform)


@pytest.mark.clause("I10", "I8")
def test_a_step_is_known_by_its_run_unless_its_message_has_a_key(
    broker: VirtualBroker, mailbox: Mailbox, registry: Flaky
) -> None:
    step: dict[str, Any] = {"run_id": "run-1", "step_id": "plan"}
    worker = driftq.Worker(broker, group="billing", registry=registry, on_settled=mailbox.put)
    worker.on("orders", effect=Effect.TRANSACTIONAL, steps=True)(perform)
    with worker:
        broker.produce("orders", "first", retries=0, **step)
        assert mailbox.next().result["did"] == "first"
        broker.produce("orders", "again", retries=0, **step)
        again = mailbox.next()
        broker.produce("orders", "its own", idempotency_key="k", **step)
        own = mailbox.next()
    assert (again.duplicate, again.result["did"]) == (True, "first")
    assert (own.duplicate, own.result["did"]) == (False, "its own")
    assert effects(registry) == ["first", "its own"]
    assert registry.find("billing/orders", "step:run-1/plan").state is ClaimState.DONE


@pytest.mark.clause("I8", "K7")
def test_a_registry_that_does_not_answer_one_topic_keeps_no_other_waiting(
    broker: VirtualBroker, mailbox: Mailbox, registry: Flaky, tmp_path: Path
) -> None:
    """More calls hang than a loop has threads to share; the worker beside them has its own."""
    count, answer = 40, threading.Event()
    hanging = threading.Semaphore(0)

    class Silent(Flaky):
        def claim(self, handler: Any, event: Any) -> Claim:
            hanging.release()
            answer.wait(PATIENCE_S)
            return super().claim(handler, event)

    (tmp_path / "silent").mkdir()
    silent = Silent(tmp_path / "silent", VirtualClock())
    stuck = driftq.Worker(broker, group="stuck", registry=silent)
    stuck.on("orders", effect=Effect.IDEMPOTENT, concurrency=count)(perform)
    broker.create_topic("others")
    free = driftq.Worker(broker, group="free", registry=registry, on_settled=mailbox.put)
    free.on("others", effect=Effect.IDEMPOTENT)(perform)
    broker.produce_many("orders", [f"m{number}" for number in range(count)])
    with stuck, free:
        assert all(hanging.acquire(timeout=PATIENCE_S) for _ in range(count))
        broker.produce("others", "goes on", idempotency_key="k")
        settled = mailbox.next()
        answer.set()
    assert settled.result["did"] == "goes on"
    silent.database.close()

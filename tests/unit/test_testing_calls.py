"""Everything that a client can do, done in the fixture and on its clock."""

import datetime as dt
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import driftq
from driftq.client import Client, DeadLetters, EventStore, Idempotency, JobCalls, JobEnd
from driftq.testing.embedded import VirtualBroker

pytestmark = pytest.mark.timeout(60)

START = dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC)
EFFECT: dict[str, Any] = {"topic": "orders", "group": "g", "idempotency_key": "k"}
NOT_CALLS = {"Client.over", "Client.url", "Client.awaited", "Client.thread", "EventStore.close"}
"""How a client is made, and what it is made of; a store closes only a client of its own."""


@pytest.fixture
def broker() -> Iterator[VirtualBroker]:
    """What the plugin's `driftq_broker` gives, with a topic in it."""
    with VirtualBroker.start() as started:
        started.create_topic("orders")
        yield started


def event(number: int) -> driftq.Event:
    return driftq.Event(
        event_id=f"e-{number}",
        aggregate_type="order",
        aggregate_id="o-1",
        event_type="placed",
        kind="fact",
        payload={"number": number},
    )


def deliver(broker: VirtualBroker) -> dict[str, Any]:
    """A message in flight, as its place."""
    broker.produce("orders", "v")
    with broker.consume("orders", "g", owner="me") as deliveries:
        taken = next(deliveries)
    return {"owner": "me", "partition": taken.partition, "offset": taken.offset}


def claim(broker: VirtualBroker) -> Any:
    broker.jobs.enqueue("mail", "send", {"to": "a"}, max_retries=0)
    [job] = broker.jobs.claim(["mail"], owner="me")
    return job


def begin(broker: VirtualBroker) -> driftq.Begun:
    begun = broker.idempotency.begin(**EFFECT, owner="me")
    assert isinstance(begun, driftq.Begun)
    return begun


def give_up(broker: VirtualBroker) -> None:
    """One dead letter."""
    broker.nack("orders", "g", **deliver(broker), reason="no milk", retryable=False)


def append(broker: VirtualBroker) -> EventStore:
    store = EventStore(broker)
    store.append(event(1))
    return store


def create_topic(broker: VirtualBroker) -> None:
    broker.create_topic("more", partitions=2)
    assert broker.topics() == ["more", "orders"]


def delete_topic(broker: VirtualBroker) -> None:
    broker.delete_topic("orders")
    with pytest.raises(driftq.TopicNotFound):
        broker.delete_topic("orders")


def reset_group(broker: VirtualBroker) -> None:
    for target in ("earliest", "latest", 0, broker.now()):
        deliver(broker)
        broker.reset_group("orders", "g", to=target)
    with pytest.raises(driftq.GroupNotFound):
        broker.reset_group("orders", "nobody", to="earliest")


def delete_group(broker: VirtualBroker) -> None:
    deliver(broker)
    broker.delete_group("orders", "g")
    assert broker.topic("orders").groups == []


def explain(broker: VirtualBroker) -> None:
    give_up(broker)
    explained = broker.explain("orders", 0)
    assert (explained.value, [group.state for group in explained.groups]) == ("v", ["dead"])
    assert [one.what for one in explained.history] == ["stored", "delivered", "dead"]
    assert explained.produced_at.startswith("2023-11-14T22:13:20")
    with pytest.raises(driftq.MessageNotFound):
        broker.explain("orders", 9)


def explain_run(broker: VirtualBroker) -> None:
    broker.produce("orders", "v", run_id="r", step_id="one")
    broker.produce("orders", "v", run_id="r", step_id="two", parent_step_id="one")
    run = broker.explain_run("r")
    assert [(step.step_id, step.depth) for step in run.steps] == [("one", 0), ("two", 1)]
    with pytest.raises(driftq.RunNotFound):
        broker.explain_run("none")


def records(broker: VirtualBroker) -> None:
    broker.produce("orders", {"id": 1})
    [record] = broker.records("orders")
    assert record.decode(dict[str, int]) == {"id": 1}
    assert record.timestamp.startswith("2023-11-14T22:13:20")


def consume(broker: VirtualBroker) -> None:
    """What waited here longer than its lease, by the broker's clock, is not handed out."""
    broker.produce_many("orders", ["a", "b"])
    with broker.consume("orders", "g", lease_ms=30_000) as deliveries:
        assert next(deliveries).attempt == 1
        broker.advance(ms=30_000)
        assert next(deliveries).attempt == 2


def enqueue(broker: VirtualBroker) -> None:
    broker.jobs.enqueue("mail", "send", {}, delay_s=60)
    broker.jobs.enqueue("mail", "send", {}, run_at=broker.now() + dt.timedelta(seconds=60))
    broker.advance(ms=59_999)
    assert broker.jobs.claim(["mail"], owner="me", limit=9) == []
    broker.advance(ms=1)
    assert len(broker.jobs.claim(["mail"], owner="me", limit=9)) == 2


def claim_in_vain(broker: VirtualBroker) -> None:
    assert broker.jobs.claim(["mail"], owner="me", wait_ms=50) == []
    assert claim(broker).payload == {"to": "a"}


def settle(broker: VirtualBroker) -> None:
    job = claim(broker)
    assert broker.jobs.settle([JobEnd(job.job_id, job.token, "complete", 7)], owner="me") == [None]
    assert broker.jobs.get(job.job_id).result == 7


def requeue(broker: VirtualBroker) -> None:
    job = claim(broker)
    broker.jobs.fail(job, error="no")
    broker.jobs.requeue(job.job_id)
    assert broker.jobs.get(job.job_id).state == "ready"


def redrive(broker: VirtualBroker) -> None:
    give_up(broker)
    letters = broker.dead_letters
    assert letters.redrive("orders", dry_run=True).matched == 1
    assert letters.redrive("orders", group="another").matched == 0
    done = letters.redrive("orders", group="g", last_error="milk", rate_per_s=100, by="me")
    assert (done.matched, done.redriven, done.skipped) == (1, 1, [])
    [letter] = letters.messages("orders")
    assert letter.redriven_at == "2023-11-14T22:13:20.000Z"


def purge(broker: VirtualBroker) -> None:
    give_up(broker)
    assert dict(broker.dead_letters.purge("orders", offsets=[0])) == {"matched": 1, "purged": 1}
    assert broker.dead_letters.messages("orders") == []


def show_letters(broker: VirtualBroker) -> None:
    give_up(broker)
    [letter] = broker.dead_letters.messages("orders", limit=10, after=None)
    assert letter.bytes() == b"v"
    assert letter.envelope is not None
    assert letter.envelope.dlq is not None
    assert (letter.envelope.dlq.group, letter.envelope.dlq.last_error) == ("g", "no milk")
    with pytest.raises(driftq.TopicNotFound):
        broker.dead_letters.messages("nowhere")


def list_letters(broker: VirtualBroker) -> None:
    give_up(broker)
    [found] = broker.dead_letters.list()
    assert (found.topic, found.dlq_topic, found.messages) == ("orders", "dlq.orders", 1)


def commit(broker: VirtualBroker) -> None:
    broker.idempotency.commit(begin(broker), result={"paid": True})
    assert broker.idempotency.begin(**EFFECT, owner="you") == driftq.AlreadyCommitted({"paid": True})


def status(broker: VirtualBroker) -> None:
    begun = begin(broker)
    found = broker.idempotency.status(**EFFECT)
    assert (found.status, found.token) == ("PENDING", begun.token)


def fail(broker: VirtualBroker) -> None:
    broker.idempotency.fail(begin(broker), error="no")
    assert broker.idempotency.status(**EFFECT).status == "FAILED"


def append_event(broker: VirtualBroker) -> None:
    store = append(broker)
    broker.advance(ms=1000)
    with pytest.raises(driftq.SequenceConflict):
        store.append(event(2), expected_seq=7)
    assert dict(store.append(event(2), expected_seq=1))["sequence_number"] == 2
    second = dt.timedelta(seconds=1)
    assert [one.occurred_at for one in store.read("order", "o-1")] == [START, START + second]


def open_writer(broker: VirtualBroker) -> None:
    assert broker.writer("orders", "importer").lanes == {}


def append_by_position(broker: VirtualBroker) -> None:
    opened = broker.writer("orders", "importer")
    message = driftq.PositionedMessage(0, "v")
    assert broker.append("orders", [message], writer="importer", epoch=opened.epoch).appended == 1


def follow(broker: VirtualBroker) -> None:
    with append(broker).follow(group="mailer") as events:
        assert next(events).event_id == "e-1"


CALLS: dict[str, Callable[[VirtualBroker], object]] = {
    "Client.create_topic": create_topic,
    "Client.delete_topic": delete_topic,
    "Client.topics": lambda broker: broker.topics(),
    "Client.topic": lambda broker: broker.topic("orders"),
    "Client.reset_group": reset_group,
    "Client.delete_group": delete_group,
    "Client.explain": explain,
    "Client.explain_run": explain_run,
    "Client.records": records,
    "Client.seal": lambda broker: broker.seal(),
    "Client.produce": lambda broker: broker.produce("orders", "v", deadline=broker.now() + dt.timedelta(1)),
    "Client.produce_many": lambda broker: broker.produce_many("orders", ["a", "b"], atomic=True),
    "Client.writer": open_writer,
    "Client.append": append_by_position,
    "Client.consume": consume,
    "Client.ack": lambda broker: broker.ack("orders", "g", **deliver(broker)),
    "Client.ack_many": lambda broker: broker.ack_many("orders", "g", owner="me", places=[(0, 0)]),
    "Client.nack": lambda broker: broker.nack("orders", "g", **deliver(broker)),
    "Client.extend": lambda broker: broker.extend("orders", "g", **deliver(broker), lease_ms=1000),
    "Client.call": lambda broker: broker.call("GET", "/v1/version"),
    "Client.call_lines": lambda broker: broker.call_lines("/v1/events/log"),
    "Client.close": lambda broker: broker.close(),
    "Idempotency.begin": begin,
    "Idempotency.mark_success": lambda broker: broker.idempotency.mark_success(begin(broker)),
    "Idempotency.mark_failure": lambda broker: broker.idempotency.mark_failure(begin(broker), error="no"),
    "Idempotency.commit": commit,
    "Idempotency.fail": fail,
    "Idempotency.extend": lambda broker: broker.idempotency.extend(begin(broker), lease_ms=1000),
    "Idempotency.status": status,
    "Idempotency.resolve": lambda broker: broker.idempotency.resolve(**EFFECT, by="me", happened=True),
    "JobCalls.enqueue": enqueue,
    "JobCalls.enqueue_many": lambda broker: broker.jobs.enqueue_many(
        "mail", "send", [{"to": "a"}, {"to": "b"}]
    ),
    "JobCalls.requeue_dead": lambda broker: broker.jobs.requeue_dead(queue="mail", dry_run=True),
    "JobCalls.claim": claim_in_vain,
    "JobCalls.heartbeat": lambda broker: broker.jobs.heartbeat(claim(broker)),
    "JobCalls.complete": lambda broker: broker.jobs.complete(claim(broker), result=1),
    "JobCalls.fail": lambda broker: broker.jobs.fail(claim(broker), error="no"),
    "JobCalls.settle": settle,
    "JobCalls.get": lambda broker: broker.jobs.get(claim(broker).job_id),
    "JobCalls.list": lambda broker: broker.jobs.list(queue="mail", state="ready"),
    "JobCalls.cancel": lambda broker: broker.jobs.cancel(claim(broker).job_id),
    "JobCalls.requeue": requeue,
    "DeadLetters.list": list_letters,
    "DeadLetters.messages": show_letters,
    "DeadLetters.redrive": redrive,
    "DeadLetters.purge": purge,
    "EventStore.append": append_event,
    "EventStore.append_all": lambda broker: EventStore(broker).append_all([(event(1), None)]),
    "EventStore.read": lambda broker: list(append(broker).read("order", "o-1")),
    "EventStore.follow": follow,
    "EventStore.log": lambda broker: list(append(broker).log()),
}


def public(kind: type) -> set[str]:
    return {f"{kind.__name__}.{name}" for name, _ in inspect.getmembers(kind) if not name.startswith("_")}


def test_no_call_is_forgotten() -> None:
    kinds = (Client, Idempotency, JobCalls, DeadLetters, EventStore)
    assert set(CALLS) == set().union(*map(public, kinds)) - NOT_CALLS


@pytest.mark.parametrize("name", CALLS)
def test_a_call_works_in_the_fixture(name: str, broker: VirtualBroker) -> None:
    CALLS[name](broker)


@pytest.mark.clause("J1")
def test_a_task_waits_on_the_fixtures_clock(broker: VirtualBroker) -> None:
    jobs = driftq.Jobs(broker)

    @jobs.task(queue="mail")
    def send(to: str) -> None: ...

    job = send.enqueue(to="a@b.c", delay=60)
    assert broker.jobs.get(job.job_id).run_at == "2023-11-14T22:14:20.000Z"
    broker.advance(ms=60_000)
    [due] = broker.jobs.claim(["mail"], owner="me")
    assert (due.job_id, due.payload) == (job.job_id, {"to": "a@b.c"})

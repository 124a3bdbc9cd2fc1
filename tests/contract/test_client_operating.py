"""What an operator does, from Python: look at what happened, send dead letters again, delete and reset."""

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import driftq
from tests.contract.serving import Server

RETRY_ONCE = driftq.RetryPolicy(max_attempts=1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("server")
    with Server(folder / "log", history=str(folder / "history.db"), events={}) as running:
        yield running


@pytest.fixture
def client(server: Server) -> Iterator[driftq.Client]:
    with driftq.Client(f"http://127.0.0.1:{server.port}") as asking:
        yield asking


@pytest.fixture
def topic(server: Server) -> str:
    return server.new_topic(1)


def give_up(client: driftq.Client, topic: str, values: list[str]) -> None:
    client.produce_many(topic, values, run_id=f"run of {topic}")
    with client.consume(topic, "billing") as deliveries:
        for delivery in deliveries.take(len(values), within_s=30):
            delivery.nack("out of milk", retryable=False)


@pytest.mark.clause("D4", "D5", "D6")
def test_dead_letters_are_found_sent_again_and_purged(client: driftq.Client, topic: str) -> None:
    give_up(client, topic, ["a", "b", "c"])
    letters = client.dead_letters
    [mine] = [one for one in letters.list() if one.topic == topic]
    assert (mine.dlq_topic, mine.messages) == (f"dlq.{topic}", 3)
    first, second, third = letters.messages(topic)
    assert [one.value for one in (first, second, third)] == ["a", "b", "c"]
    assert [one.offset for one in letters.messages(topic, limit=1, after=first.offset)] == [second.offset]
    assert letters.redrive(topic, dry_run=True, last_error="milk").matched == 3
    done = letters.redrive(topic, offsets=[first.offset], by="somebody")
    assert (done.matched, done.redriven, done.skipped) == (1, 1, [])
    with client.consume(topic, "billing") as deliveries:
        assert [one.value for one in deliveries.take(1, within_s=30)] == ["a"]
    assert letters.redrive(topic, group="nobody").matched == 0
    assert letters.redrive(topic, rate_per_s=1000).redriven == 2
    assert letters.purge(topic, offsets=[third.offset], dry_run=True).purged == 0
    assert letters.purge(topic).purged == 3
    assert letters.messages(topic) == []


@pytest.mark.clause("D7", "H2")
def test_what_happened_to_a_message_and_to_a_run(client: driftq.Client, topic: str) -> None:
    give_up(client, topic, ['{"id": 7}'])
    message = client.explain(topic, 0)
    assert message.decode(dict[str, int]) == {"id": 7}
    assert [(group.group, group.state, group.last_error) for group in message.groups] == [
        ("billing", "dead", "out of milk")
    ]
    assert message.history[-1].dlq_topic == f"dlq.{topic}"
    run = client.explain_run(f"run of {topic}")
    assert run.state == "dead"
    with pytest.raises(driftq.MessageNotFound):
        client.explain(topic, 99)
    with pytest.raises(driftq.RunNotFound):
        client.explain_run("no such run / anywhere")


@pytest.mark.clause("T4", "G6")
def test_groups_are_reset_and_deleted_and_topics_too(client: driftq.Client, topic: str) -> None:
    client.produce_many(topic, ["a", "b"])

    def read() -> list[str]:
        with client.consume(topic, "g") as deliveries:
            taken = deliveries.take(2, within_s=0.5)
            for one in taken:
                one.ack()
            return [one.value for one in taken]

    assert read() == ["a", "b"]
    client.reset_group(topic, "g", to="earliest")
    assert read() == ["a", "b"]
    client.reset_group(topic, "g", to=1)
    assert read() == ["b"]
    client.reset_group(topic, "g", to=dt.datetime.now(dt.UTC) - dt.timedelta(days=1))
    assert read() == ["a", "b"]
    with pytest.raises(driftq.InvalidArgument, match="time zone"):
        client.reset_group(topic, "g", to=dt.datetime(2026, 1, 1))  # noqa: DTZ001 - the mistake.
    client.delete_group(topic, "g")
    with pytest.raises(driftq.GroupNotFound):
        client.delete_group(topic, "g")
    client.delete_topic(topic)
    with pytest.raises(driftq.TopicNotFound):
        client.delete_topic(topic)
    assert topic not in client.topics()


@pytest.mark.clause("I7")
def test_effects_are_finished_by_either_name(client: driftq.Client, topic: str) -> None:
    effect: dict[str, Any] = {"topic": topic, "group": "g"}
    paid = client.idempotency.begin(**effect, idempotency_key="paid", owner="me")
    sent = client.idempotency.begin(**effect, idempotency_key="sent", owner="me")
    assert isinstance(paid, driftq.Begun)
    assert isinstance(sent, driftq.Begun)
    client.idempotency.commit(paid, result={"cents": 100})
    client.idempotency.fail(sent, error="no stamps")
    found = client.idempotency.status(**effect, idempotency_key="paid")
    assert (found.status, found.result) == ("COMMITTED", {"cents": 100})
    assert client.idempotency.status(**effect, idempotency_key="sent").last_error == "no stamps"


@pytest.mark.clause("J1")
def test_jobs_are_shown_as_python_values(client: driftq.Client) -> None:
    enqueued = client.jobs.enqueue("shown", "send", {"to": ["a"]})
    assert client.jobs.get(enqueued.job_id).result is None
    [job] = client.jobs.claim(["shown"], owner="me")
    assert job.payload == {"to": ["a"]}
    client.jobs.complete(job, result={"sent": 1})
    [shown] = client.jobs.list(queue="shown")
    assert (shown.payload, shown.result) == ({"to": ["a"]}, {"sent": 1})
    assert "Raw" not in repr(shown)


def test_a_claim_waits_longer_than_other_calls_may_take(server: Server) -> None:
    options = driftq.ClientOptions(attempt_timeout_s=0.2)
    with driftq.Client(f"http://127.0.0.1:{server.port}", options=options) as asking:
        assert asking.jobs.claim(["empty"], owner="me", wait_ms=600) == []


@pytest.mark.clause("S1", "S3")
async def test_events_are_appended_and_read_on_an_event_loop(server: Server) -> None:
    def event(number: int) -> driftq.Event:
        return driftq.Event(
            event_id=f"async-{number}",
            aggregate_type="order",
            aggregate_id="awaited",
            event_type="placed",
            kind="fact",
            payload={"number": number},
        )

    async with driftq.AsyncEventStore(f"http://127.0.0.1:{server.port}") as store:
        assert (await store.append(event(1), expected_seq=0)).sequence_number == 1
        with pytest.raises(driftq.SequenceConflict) as conflict:
            await store.append(event(2), expected_seq=5)
        assert (conflict.value.expected, conflict.value.actual) == (5, 1)
        many = await store.append_all([(event(number), None) for number in range(2, 1500)])
        assert [one.sequence_number for one in many[-2:]] == [1498, 1499]
        assert await store.append_all([]) == []
        read = [one.payload["number"] async for one in store.read("order", "awaited", from_seq=2)]
        assert read == list(range(2, 1500))
        assert len([one async for one in store.log()]) == 1499


async def test_an_awaited_client_does_the_same(server: Server, topic: str) -> None:
    async with driftq.AsyncClient(f"http://127.0.0.1:{server.port}") as client:
        await client.produce(topic, "v", retry_policy=RETRY_ONCE)
        async with client.consume(topic, "g") as deliveries:
            await (await anext(deliveries)).nack("no")
        assert (await client.explain(topic, 0)).groups[0].state == "dead"
        assert (await client.dead_letters.redrive(topic)).redriven == 1
        await client.reset_group(topic, "g", to="latest")
        await client.delete_group(topic, "g")
        await client.delete_topic(topic)

"""The client against a real server: both faces, the same words."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

import driftq
from tests.contract.serving import Server
from tests.support.forked import PROCESSES


@pytest.fixture(params=PROCESSES, autouse=True)
def process(request: pytest.FixtureRequest) -> str:
    """Where a test's body runs: here, or in a child that was forked when the client had been used."""
    return str(request.param)


@pytest.fixture
def client(server: Server) -> Iterator[driftq.Client]:
    with driftq.Client(f"http://127.0.0.1:{server.port}") as asking:
        asking.topics()
        yield asking


@pytest.fixture
def topic(server: Server) -> str:
    return server.new_topic(3)


@pytest.mark.clause("H1", "T3")
def test_a_message_goes_in_and_comes_out(client: driftq.Client, topic: str) -> None:
    receipt = client.produce(topic, {"id": 1}, key="user:1", idempotency_key="order-1", run_id="r")
    assert (receipt.topic, receipt.partition, receipt.offset, receipt.duplicate) == (topic, 1, 0, False)
    assert client.produce(topic, {"id": 1}, key="user:1", idempotency_key="order-1").duplicate
    with client.consume(topic, "billing", owner="me") as deliveries:
        delivery = next(deliveries)
        assert (delivery.topic, delivery.group, delivery.owner) == (topic, "billing", "me")
        assert (delivery.partition, delivery.offset, delivery.attempt, delivery.key) == (1, 0, 1, "user:1")
        assert delivery.json() == {"id": 1}
        assert (delivery.envelope.run_id, delivery.envelope.idempotency_key) == ("r", "order-1")
        delivery.ack()
    groups = client.topic(topic).groups
    assert sum(group.lag for group in groups) == 0
    assert topic in client.topics()


def test_values_of_every_kind_come_back(client: driftq.Client, topic: str) -> None:
    for value in ("text", {"a": [1]}, b"\x00\xff"):
        client.produce(topic, value)
    text, json, octets = client.records(topic)
    assert (text.value, json.json(), octets.bytes()) == ("text", {"a": [1]}, b"\x00\xff")
    assert [one.offset for one in client.records(topic, partition=0, from_offset=1, limit=1)] == [1]


def test_many_records_come_page_by_page(client: driftq.Client, topic: str) -> None:
    client.produce_many(topic, range(1300))
    assert [one.json() for one in client.records(topic)] == list(range(1300))


@pytest.mark.clause("A5", "A7", "A8")
def test_a_delivery_is_nacked_extended_and_fenced(client: driftq.Client, topic: str) -> None:
    client.produce(topic, "v")
    with client.consume(topic, "g", lease_ms=60_000) as deliveries:
        first = next(deliveries)
        first.extend(90_000)
        first.nack("out of milk")
        second = next(deliveries)
        assert (second.attempt, second.last_error) == (2, "out of milk")
        with pytest.raises(driftq.StaleAttempt) as stale:
            first.ack()
        assert (stale.value.held, stale.value.given) == (2, 1)
        with pytest.raises(driftq.FailedPrecondition):
            first.nack("again")
        second.ack()
        second.ack()


@pytest.mark.clause("A1", "A9")
def test_places_are_settled_without_a_delivery_at_hand(client: driftq.Client, topic: str) -> None:
    client.produce_many(topic, ["a", "b", "c"])
    with client.consume(topic, "g", owner="me", lease_ms=60_000) as deliveries:
        assert len(deliveries.take(3, within_s=60)) == 3
    client.ack(topic, "g", owner="me", partition=0, offset=0, attempt=1)
    with pytest.raises(driftq.NotOwner):
        client.ack(topic, "g", owner="you", partition=0, offset=1)
    client.extend(topic, "g", owner="me", partition=0, offset=1, lease_ms=60_000)
    client.nack(topic, "g", owner="me", partition=0, offset=2, reason="no")
    done, unknown = client.ack_many(topic, "g", owner="me", places=[(0, 1), (0, 2)])
    assert done is None
    assert isinstance(unknown, driftq.NoCurrentDelivery)


@pytest.mark.clause("A9", "A3")
def test_acks_for_later_are_sent_at_the_latest_on_close(client: driftq.Client, topic: str) -> None:
    client.produce_many(topic, range(500))
    with client.consume(topic, "g", prefetch=500) as deliveries:
        for delivery in deliveries.take(500, within_s=60):
            delivery.ack_later()
    assert sum(group.lag for group in client.topic(topic).groups) == 0


@pytest.mark.clause("G6")
def test_prefetch_and_start_reach_the_server(client: driftq.Client, topic: str) -> None:
    client.produce_many(topic, range(10))
    with client.consume(topic, "few", prefetch=3) as few:
        assert len(few.take(3, within_s=60)) == 3
        assert few.take(1, within_s=0.3) == []
    with client.consume(topic, "late", start="latest") as late:
        assert late.take(1, within_s=0.2) == []
        client.produce(topic, "new")
        assert next(late).value == "new"


@pytest.mark.clause("G5")
def test_release_on_close_gives_messages_back_at_once(client: driftq.Client, topic: str) -> None:
    client.produce(topic, "v")
    with client.consume(topic, "g", lease_ms=60_000, release_on_close=True) as first:
        assert next(first).attempt == 1
    with client.consume(topic, "g") as second:
        assert next(second).attempt == 2


@pytest.mark.clause("G5")
def test_what_waited_longer_than_its_lease_is_passed_over(client: driftq.Client, topic: str) -> None:
    client.produce_many(topic, ["a", "b"])
    with client.consume(topic, "g", lease_ms=3_000, prefetch=2) as deliveries:
        first = next(deliveries)
        time.sleep(3.3)  # The handler is slow: the second one's lease ends in our hands.
        second = next(deliveries)
        assert first.attempt == 1
        assert second.attempt >= 2, "a delivery whose lease had ended was handed out"


@pytest.mark.clause("H2")
def test_errors_are_the_servers_own(client: driftq.Client, topic: str) -> None:
    with pytest.raises(driftq.TopicNotFound) as missing:
        client.produce("nowhere", "v")
    assert missing.value.topic == "nowhere"
    with pytest.raises(driftq.TopicExists) as exists:
        client.create_topic(topic, partitions=4)
    assert (exists.value.partitions, exists.value.asked) == (3, 4)
    with pytest.raises(driftq.TopicNotFound):
        next(client.consume("nowhere", "g"))
    with pytest.raises(driftq.InvalidArgument):
        client.consume(topic, "g", lease_ms=0).take(1, within_s=5)
    with pytest.raises(driftq.RouteNotFound) as route:
        client.call("GET", "/v1/nowhere")
    assert route.value.path == "/v1/nowhere"


@pytest.mark.clause("E4")
def test_labels_are_not_for_clients_on_the_wire(client: driftq.Client, topic: str) -> None:
    with pytest.raises(driftq.InvalidArgument, match="labels"):
        client.produce(topic, "v", labels={"team": "a"})


@pytest.mark.clause("P6")
def test_an_atomic_batch_is_all_or_nothing(client: driftq.Client, topic: str) -> None:
    assert len(client.produce_many(topic, ["a", "b"], atomic=True)) == 2
    with pytest.raises(driftq.InvalidArgument):
        client.produce_many(topic, ["c", "d"], atomic=True, partition_override=9)
    assert [one.value for one in client.records(topic)] == ["a", "b"]


def test_a_server_that_is_not_there_is_named() -> None:
    with driftq.Client("http://127.0.0.1:9", timeout_s=0.3) as asking:
        with pytest.raises(driftq.ServerUnreachable) as gone:
            asking.topics()
        with pytest.raises(driftq.ServerUnreachable):
            next(asking.consume("t", "g"))
    assert gone.value.url == "http://127.0.0.1:9"
    with pytest.raises(driftq.ClientClosed):
        asking.topics()


def test_threads_share_a_client_and_their_batches(client: driftq.Client, topic: str) -> None:
    def work(number: int) -> None:
        for turn in range(20):
            client.produce(topic, [number, turn])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [one.json() for one in client.records(topic)]
    for number in range(8):
        assert [turn for who, turn in found if who == number] == list(range(20))


def test_a_consumer_ends_when_another_thread_closes_it(client: driftq.Client, topic: str) -> None:
    deliveries = client.consume(topic, "g")
    assert deliveries.take(1, within_s=0.1) == []
    threading.Timer(0.1, deliveries.close).start()
    assert list(deliveries) == []


async def test_the_other_face_has_the_same_words(server: Server, topic: str) -> None:
    async with driftq.AsyncClient(f"http://127.0.0.1:{server.port}") as client:
        receipts = await asyncio.gather(*[client.produce(topic, number) for number in range(50)])
        assert sorted(receipt.offset for receipt in receipts) == list(range(50))
        seen = []
        async with client.consume(topic, "g") as deliveries:
            async for delivery in deliveries:
                seen.append(delivery.decode(int))
                await delivery.ack_later()
                if len(seen) == 50:
                    break
        assert sorted(seen) == list(range(50))
        assert sum(group.lag for group in (await client.topic(topic)).groups) == 0
        assert len([one async for one in client.records(topic)]) == 50
    public = {name for name in dir(driftq.AsyncClient) if not name.startswith("_")}
    assert public <= {name for name in dir(driftq.Client) if not name.startswith("_")}

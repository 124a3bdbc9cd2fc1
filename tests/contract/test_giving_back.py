"""What closing consumers give back, over real sockets: a crash is a try, what nobody handled is none."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

import driftq
from tests.contract.serving import PATIENCE_S, ROOT, Server

POLICY = {"max_attempts": 2, "backoff_ms": 50, "max_backoff_ms": 100}


@pytest.fixture
def topic(server: Server) -> str:
    return server.new_topic()


@pytest.fixture
def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.port}"


def letters(server: Server, topic: str) -> list[dict[str, Any]]:
    answer = server.get(f"/v1/dlq/{topic}")
    return [] if answer.status == 404 else list(answer.json["messages"])


def wait_for_letter(server: Server, topic: str) -> dict[str, Any]:
    """The first dead letter, when it is there."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if found := letters(server, topic):
            return found[0]
        time.sleep(0.02)
    pytest.fail("there is no dead letter")


@pytest.mark.clause("G5", "D2", "D3", "E4")
def test_a_message_that_kills_its_worker_ends_as_a_dead_letter(server: Server, topic: str) -> None:
    server.produce(topic, "poison", retry_policy=POLICY)
    for attempt in (1, 2):
        with server.consume(topic, lease_ms=60_000, release_on_close="true") as stream:
            assert stream.next()["attempts"] == attempt
    facts = wait_for_letter(server, topic)["envelope"]["dlq"]
    assert (facts["attempts"], facts["last_error"], facts["reason"]) == (2, "consumer_closed", "max_attempts")


@pytest.mark.clause("G5", "D3", "A7")
def test_what_nobody_started_comes_again_at_once_and_costs_no_try(server: Server, topic: str) -> None:
    server.produce(topic, "v", retry_policy=POLICY | {"backoff_ms": 60_000, "max_backoff_ms": 60_000})
    with server.consume(topic, lease_ms=60_000) as stream:
        for attempt in range(1, 6):
            line = stream.next()
            assert (line["attempts"], line["last_error"]) == (attempt, "")
            assert server.settle("nack", topic, line, attempt=attempt, started=False).status == 204
        line = stream.next()
        assert server.settle("nack", topic, line, attempt=5, started=False).status == 409
        assert server.settle("ack", topic, line, attempt=6).status == 204
    assert letters(server, topic) == []


@pytest.mark.clause("G5", "E3")
@pytest.mark.parametrize("wrong", [{"reason": "boom"}, {"retryable": False}, {"started": "no"}])
def test_what_was_not_started_cannot_have_failed(
    server: Server, topic: str, wrong: dict[str, object]
) -> None:
    server.produce(topic, "v")
    with server.consume(topic, lease_ms=60_000) as stream:
        line = stream.next()
        asked = {"started": False} | wrong
        server.settle("nack", topic, line, **asked).refused(400, "INVALID_ARGUMENT")
        assert server.settle("nack", topic, line, started=False, reason="", retryable=True).status == 204


@pytest.mark.clause("G5", "D3")
@pytest.mark.parametrize("release_on_close", [False, True])
def test_a_client_that_closes_burns_no_tries_of_what_it_prefetched(
    server: Server, topic: str, url: str, release_on_close: bool
) -> None:
    for number in range(20):
        server.produce(topic, str(number), retry_policy=POLICY)
    with driftq.Client(url) as client:
        for _ in range(5):
            with client.consume(
                topic, "g", lease_ms=60_000, prefetch=20, release_on_close=release_on_close
            ) as consumer:
                next(consumer).nack(started=False)
        with client.consume(topic, "g", lease_ms=60_000) as consumer:
            came = consumer.take(20, within_s=PATIENCE_S)
            assert sorted(int(one.value) for one in came) == list(range(20))
            for one in came:
                one.ack()
    assert letters(server, topic) == []


@pytest.mark.clause("G5")
def test_an_async_client_gives_back_too(server: Server, topic: str, url: str) -> None:
    for number in range(5):
        server.produce(topic, str(number))

    async def story() -> list[int]:
        async with driftq.AsyncClient(url) as client:
            async with client.consume(topic, "g", lease_ms=60_000) as consumer:
                await (await anext(consumer)).ack()
            async with client.consume(topic, "g", lease_ms=60_000) as consumer:
                return sorted(int(one.value) for one in await consumer.take(4, within_s=PATIENCE_S))

    assert asyncio.run(story()) == [1, 2, 3, 4]


@pytest.mark.clause("G5", "D3")
def test_the_shell_gives_back_what_it_did_not_print(server: Server, topic: str, url: str) -> None:
    """Each call gets the next message with its ack: closing must not count as a try of it."""
    for number in range(4):
        server.produce(topic, str(number), retry_policy=POLICY | {"max_attempts": 1})
    command = [sys.executable, "-m", "driftq", "consume", topic, "--group", "g", "--max", "1", "--json"]
    printed = [
        json.loads(
            subprocess.run(
                [*command, "--url", url], cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE_S
            ).stdout
        )
        for _ in range(4)
    ]
    assert [line["value"] for line in printed] == ["0", "1", "2", "3"]
    assert letters(server, topic) == []


@pytest.mark.clause("G5", "D3")
def test_a_worker_that_stops_gives_back_what_waits_for_its_turn(server: Server, topic: str, url: str) -> None:
    """One handler runs, seven deliveries wait: they are there for others before the handler ends."""
    for number in range(8):
        server.produce(topic, str(number), retry_policy=POLICY | {"max_attempts": 1})
    with driftq.Client(url) as client:
        entered, leave = threading.Event(), threading.Event()
        worker = driftq.Worker(client, group="g", lease_ms=60_000)

        @worker.on(topic, effect=driftq.Effect.IDEMPOTENT, concurrency=1, prefetch=8)
        def handle(message: driftq.Message, context: driftq.Context) -> None:
            entered.set()
            leave.wait(PATIENCE_S)

        worker.start()
        assert entered.wait(PATIENCE_S)
        stopping = worker.ask_to_stop()
        assert stopping is not None
        with server.consume(topic, owner="other", lease_ms=60_000) as stream:
            assert sorted(int(line["value"]) for line in stream.take(7)) == list(range(1, 8))
        assert not stopping.done()
        leave.set()
        worker.stop()
    assert letters(server, topic) == []

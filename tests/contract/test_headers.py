"""Headers of messages: stored and delivered as they were produced, in dead letters and redrives too."""

from typing import Any

import pytest

import driftq
from driftq.model.headers import HEADERS_BYTES_MAX, HEADERS_MAX
from tests.contract.serving import Server

GIVEN = {"source": "bar", "content-type": "text/plain", "größe": "läng", "empty": ""}


def produce(server: Server, topic: str, headers: Any, **fields: Any) -> None:
    body = {"topic": topic, "value": "v", "headers": headers} | fields
    assert server.post("/v1/produce", body).status == 200


@pytest.mark.clause("P8")
@pytest.mark.parametrize("envelope", [None, {"run_id": "r"}, {"idempotency_key": "k"}])
def test_headers_are_delivered_and_read_as_they_were_produced(server: Server, envelope: Any) -> None:
    topic = server.new_topic()
    produce(server, topic, GIVEN, envelope=envelope)
    produce(server, topic, {}, envelope=envelope and {"run_id": "other"})
    with server.consume(topic) as stream:
        first, second = stream.take(2)
    assert first["headers"] == GIVEN
    assert "headers" not in second
    records = server.get(f"/v1/topics/{topic}/records").lines
    assert [line.get("headers") for line in records] == [GIVEN, None]


@pytest.mark.clause("P8")
def test_a_batch_has_messages_with_and_without_headers(server: Server) -> None:
    topic = server.new_topic()
    messages = [
        {"topic": topic, "value": str(number)} | ({"headers": {"n": str(number)}} if number % 3 == 0 else {})
        for number in range(10)
    ]
    assert server.post("/v1/produce/batch", {"messages": messages}).json["produced"] == 10
    records = server.get(f"/v1/topics/{topic}/records").lines
    assert [line.get("headers") for line in records] == [message.get("headers") for message in messages]


TOO_MANY = {f"n{number}": "" for number in range(HEADERS_MAX + 1)}
TOO_LARGE = {"n": "ä" * (HEADERS_BYTES_MAX // 2)}


@pytest.mark.clause("P8", "P6")
@pytest.mark.parametrize("headers", [TOO_MANY, TOO_LARGE, {"": "x"}, {"n": 1}, {"n": None}, ["n"], "n"])
def test_headers_beyond_the_limits_are_refused(server: Server, headers: Any) -> None:
    topic = server.new_topic()
    bad = {"topic": topic, "value": "v", "headers": headers}
    assert "headers" in server.post("/v1/produce", bad).refused(400, "INVALID_ARGUMENT")["message"]
    good = {"topic": topic, "value": "good", "headers": {"n": "1"}}
    batch = server.post("/v1/produce/batch", {"messages": [bad, *[good] * 6]}).json
    assert (batch["produced"], batch["failed"]) == (6, 1)
    assert batch["results"][0]["error"] == "INVALID_ARGUMENT"


@pytest.mark.clause("P8")
def test_the_limits_themselves_are_taken(server: Server) -> None:
    topic = server.new_topic()
    many = {f"{number:02}": "x" * (HEADERS_BYTES_MAX // HEADERS_MAX - 2) for number in range(HEADERS_MAX)}
    produce(server, topic, many)
    [line] = server.get(f"/v1/topics/{topic}/records").lines
    assert line["headers"] == many


@pytest.mark.clause("P8")
def test_headers_are_in_the_dead_letter_and_in_the_redrive(server: Server) -> None:
    topic = server.new_topic()
    produce(server, topic, GIVEN, envelope={"retry_policy": {"max_attempts": 1}})
    with server.consume(topic) as stream:
        line = stream.next()
        assert server.settle("nack", topic, line, reason="no").status == 204
        [letter] = server.get(f"/v1/dlq/{topic}").json["messages"]
        assert letter["headers"] == GIVEN
        assert server.post(f"/v1/dlq/{topic}/redrive", {}).json["redriven"] == 1
        again = stream.next()
    assert (again["headers"], again["offset"]) == (GIVEN, line["offset"] + 1)


@pytest.mark.clause("P8")
def test_headers_survive_a_kill(tmp_path: Any) -> None:
    server = Server(tmp_path / "log").start()
    topic = server.new_topic()
    produce(server, topic, GIVEN)
    server.kill()
    with server, server.consume(topic) as stream:
        assert stream.next()["headers"] == GIVEN


@pytest.mark.clause("P8")
def test_the_client_and_its_worker_carry_headers(server: Server) -> None:
    topic = server.new_topic()
    with driftq.Client(f"http://127.0.0.1:{server.port}") as client:
        client.produce(topic, "one", headers=GIVEN)
        client.produce_many(topic, ["two", "three"], headers={"part": "many"})
        assert [record.headers for record in client.records(topic)] == [
            GIVEN,
            {"part": "many"},
            {"part": "many"},
        ]
        for wrong in ({"n": 1}, {"": "x"}, TOO_MANY, {"n": "\ud800"}):
            with pytest.raises(driftq.errors.InvalidArgument, match="headers"):
                client.produce(topic, "no", headers=wrong)  # type: ignore[arg-type]
        seen: list[Any] = []
        worker = driftq.Worker(client, group="carried")

        @worker.on(topic, effect=driftq.Effect.IDEMPOTENT)
        def note(message: driftq.Message, context: driftq.Context) -> None:
            seen.append(message.headers)
            if len(seen) == 3:
                worker.ask_to_stop()

        worker.run()
        assert seen[0] == GIVEN

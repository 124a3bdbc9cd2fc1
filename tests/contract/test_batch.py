"""Many messages or acks in one request: a result for each, in order."""

import json
from typing import Any

import pytest

from tests.contract.serving import Answer, Server


def produce_batch(server: Server, messages: list[Any], **fields: Any) -> Answer:
    return server.post("/v1/produce/batch", {"messages": messages} | fields)


def offsets(server: Server, topic: str) -> list[int]:
    return [line["offset"] for line in server.get(f"/v1/topics/{topic}/records").lines]


@pytest.mark.clause("P6")
def test_results_come_in_the_order_of_the_messages(server: Server) -> None:
    one, two = server.new_topic(3), server.new_topic()
    messages = [{"topic": one, "value": "a", "key": "user:1"}, {"topic": two, "value": "b"}] * 2
    answer = produce_batch(server, messages)
    assert answer.status == 200
    assert answer.json == {
        "produced": 4,
        "failed": 0,
        "results": [
            {"status": "produced", "topic": one, "partition": 1, "offset": 0, "duplicate": False},
            {"status": "produced", "topic": two, "partition": 0, "offset": 0, "duplicate": False},
            {"status": "produced", "topic": one, "partition": 1, "offset": 1, "duplicate": False},
            {"status": "produced", "topic": two, "partition": 0, "offset": 1, "duplicate": False},
        ],
    }


@pytest.mark.clause("P6")
def test_a_bad_message_fails_alone(server: Server) -> None:
    topic = server.new_topic()
    good = {"topic": topic, "value": "v"}
    bad = [
        {"topic": topic},
        good | {"x": 1},
        good | {"value": 5},
        7,
        good | {"envelope": {"deadline": "2001-01-01T00:00:00Z"}},
        good | {"envelope": {"deadline": "no time"}},
        good | {"envelope": {"labels": {}}},
        {"topic": "nowhere", "value": "v"},
    ]
    messages = [item for wrong in bad for item in (wrong, good | {"key": None})]
    answer = produce_batch(server, messages).json
    assert (answer["produced"], answer["failed"]) == (len(bad), len(bad))
    errors = [result["error"] for result in answer["results"][::2]]
    assert errors == ["INVALID_ARGUMENT"] * 7 + ["NOT_FOUND"]
    assert [result["offset"] for result in answer["results"][1::2]] == list(range(len(bad)))
    assert offsets(server, topic) == list(range(len(bad)))


@pytest.mark.clause("P6")
@pytest.mark.parametrize(
    ("bad", "status", "code"),
    [
        ({"topic": "TOPIC"}, 400, "INVALID_ARGUMENT"),
        ({"topic": "nowhere", "value": "v"}, 404, "NOT_FOUND"),
        ({"topic": "TOPIC", "value": "v", "envelope": {"partition_override": 9}}, 400, "INVALID_ARGUMENT"),
    ],
)
def test_an_atomic_batch_stores_all_or_nothing(
    server: Server, bad: dict[str, Any], status: int, code: str
) -> None:
    topic = server.new_topic()
    good = {"topic": topic, "value": "v"}
    wrong = bad | {"topic": topic} if bad["topic"] == "TOPIC" else bad
    refused = produce_batch(server, [good, wrong, good], atomic=True)
    refused.refused(status, code)
    results = refused.json["results"]
    assert [result["error"] for result in results] == ["FAILED_PRECONDITION", code, "FAILED_PRECONDITION"]
    assert offsets(server, topic) == []
    assert produce_batch(server, [good, good], atomic=True).json["produced"] == 2
    assert offsets(server, topic) == [0, 1]


@pytest.mark.clause("P6", "I2")
def test_a_key_twice_in_one_batch_is_stored_once(server: Server) -> None:
    topic = server.new_topic()
    keyed = {"topic": topic, "value": "v", "envelope": {"idempotency_key": "k"}}
    first, second = produce_batch(server, [keyed, keyed]).json["results"]
    assert (first["duplicate"], second["duplicate"], second["offset"]) == (False, True, first["offset"])
    assert produce_batch(server, [keyed]).json["produced"] == 1
    assert offsets(server, topic) == [0]


@pytest.mark.clause("P6", "P4")
def test_messages_over_a_limit_are_told_one_by_one(small_server: Server) -> None:
    topic = small_server.new_topic()
    messages = [{"topic": topic, "value": "v"}] * 3
    results = produce_batch(small_server, messages).json["results"]
    assert [result.get("error") for result in results] == [None, None, "RESOURCE_EXHAUSTED"]
    full = produce_batch(small_server, messages, atomic=True)
    assert full.refused(429, "RESOURCE_EXHAUSTED")["reason"] == "overloaded"
    assert full.headers["Retry-After"] == "1"


@pytest.mark.clause("P6")
def test_lines_are_as_good_as_a_list(server: Server) -> None:
    topic = server.new_topic()
    lines = [json.dumps({"topic": topic, "value": str(number)}) for number in range(3)]
    kind = {"Content-Type": "application/x-ndjson; charset=utf-8"}
    good = server.call("POST", "/v1/produce/batch", ("\n".join(lines) + "\n\n").encode(), kind)
    assert good.json["produced"] == 3
    mixed = "\r\n".join([lines[0], "{", "\xff", lines[1]]).encode("latin-1")
    answer = server.call("POST", "/v1/produce/batch", mixed, kind).json
    assert [result.get("error") for result in answer["results"]] == [
        None,
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT",
        None,
    ]
    server.call("POST", "/v1/produce/batch?atomic=true", mixed, kind).refused(400, "INVALID_ARGUMENT")
    assert offsets(server, topic) == [0, 1, 2, 3, 4]


@pytest.mark.clause("P6", "H2")
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b'{"messages":{}}',
        b'{"messages":[],"atomic":1}',
        b'{"messages":[',
        b'{"messages":[' * 90000,
    ],
)
def test_what_is_no_batch_at_all_is_refused(server: Server, body: bytes) -> None:
    server.call("POST", "/v1/produce/batch", body).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("P6")
def test_an_empty_batch_is_a_batch(server: Server) -> None:
    for fields in ({}, {"atomic": True}, {"atomic": None}):
        assert produce_batch(server, [], **fields).json == {"produced": 0, "failed": 0, "results": []}


@pytest.mark.clause("A9")
def test_acks_of_a_batch_are_answered_one_by_one(server: Server) -> None:
    topic = server.new_topic()
    for _ in range(4):
        server.produce(topic, "v")
    with server.consume(topic) as stream:
        stream.take(4)
        acks = [
            {"partition": 0, "offset": 0},
            {"partition": 0, "offset": 1, "attempt": 9},
            {"partition": 0, "offset": 0},
            {"partition": 7, "offset": 0},
            {"partition": 0, "offset": 99},
            {"partition": 0, "offset": 3, "attempt": 1},
            {"partition": 0},
        ]
        body = {"topic": topic, "group": "g", "owner": "o", "acks": acks}
        answer = server.post("/v1/ack/batch", body)
    assert answer.status == 200
    told = [result.get("status") or result["error"] for result in answer.json["results"]]
    assert told == [
        "acked",
        "FAILED_PRECONDITION",
        "acked",
        "INVALID_ARGUMENT",
        "FAILED_PRECONDITION",
        "acked",
        "INVALID_ARGUMENT",
    ]
    assert answer.json["results"][1]["message"] == "stale attempt"
    server.post("/v1/ack/batch", body | {"topic": "nowhere"}).refused(404, "NOT_FOUND")
    server.post("/v1/ack/batch", body | {"owner": ""}).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("P6")
def test_in_brief_new_messages_of_one_topic_are_told_together(server: Server) -> None:
    alone, spread = server.new_topic(), server.new_topic(3)
    path = "/v1/produce/batch?brief=true"
    messages = [{"topic": alone, "value": "a"}] * 3
    server.post(path, {"messages": messages})
    assert server.post(path, {"messages": messages, "atomic": True}).json == {
        "produced": 3,
        "failed": 0,
        "topic": alone,
        "first_offset": 3,
        "partition": 0,
    }
    many = [{"topic": spread, "value": "a", "key": f"user:{number}"} for number in range(8)]
    told = server.post(path, {"messages": many}).json
    stored = server.get(f"/v1/topics/{spread}/records").lines
    places = {line["offset"]: line["partition"] for line in stored}
    assert told["first_offset"] == 0
    assert told["partitions"] == [places[offset] for offset in range(8)]
    keyed = {"topic": alone, "value": "a", "envelope": {"idempotency_key": "k"}}
    for others in ([keyed, keyed], [{"topic": "nowhere", "value": "v"}], [messages[0], many[0]]):
        answer = server.post(path, {"messages": [messages[0], *others]}).json
        assert len(answer["results"]) == 1 + len(others), "what cannot be told together is told one by one"

"""Stored messages, read without a group."""

import re
from typing import Any

import pytest

from tests.contract.serving import Server


def fill(server: Server, partitions: int, count: int) -> str:
    topic = server.new_topic(partitions)
    messages = [
        {"topic": topic, "value": str(number), "envelope": {"partition_override": number % partitions}}
        for number in range(count)
    ]
    assert server.post("/v1/produce/batch", {"messages": messages}).json["failed"] == 0
    return topic


def read(server: Server, topic: str, **query: Any) -> list[tuple[int, int]]:
    answer = server.get(f"/v1/topics/{topic}/records", **query)
    assert (answer.status, answer.headers["Content-Type"]) == (200, "application/x-ndjson; charset=utf-8")
    return [(line["partition"], line["offset"]) for line in answer.lines]


@pytest.mark.clause("H1", "E1")
def test_a_record_says_everything_that_was_stored(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v", "k", run_id="r")
    (line,) = server.get(f"/v1/topics/{topic}/records").lines
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("timestamp"))
    assert line == {"partition": 0, "offset": 0, "key": "k", "value": "v", "envelope": {"run_id": "r"}}


@pytest.mark.clause("T4")
def test_partitions_come_one_after_the_other_in_the_order_of_offsets(server: Server) -> None:
    topic = fill(server, 3, 9)
    everything = [(number % 3, number) for start in range(3) for number in range(start, 9, 3)]
    assert read(server, topic) == everything
    assert read(server, topic, partition=1) == [(1, 1), (1, 4), (1, 7)]
    assert read(server, topic, partition=1, **{"from": 2}) == [(1, 4), (1, 7)]
    assert read(server, topic, partition=1, **{"from": 4, "to": 7}) == [(1, 4)]
    assert read(server, topic, limit=4) == everything[:4]
    assert read(server, topic, **{"from": 100}) == []
    assert read(server, topic, **{"from": 5, "to": 2}) == []


@pytest.mark.clause("H2")
@pytest.mark.parametrize(
    "query", [{"partition": 3}, {"partition": -1}, {"from": -1}, {"to": "x"}, {"limit": 0}, {"limit": 2**63}]
)
def test_what_cannot_be_read_is_refused(server: Server, query: dict[str, Any]) -> None:
    topic = server.new_topic(3)
    server.get(f"/v1/topics/{topic}/records", **query).refused(400, "INVALID_ARGUMENT")
    server.get("/v1/topics/nowhere/records").refused(404, "NOT_FOUND")


@pytest.mark.clause("H4")
def test_a_long_answer_comes_in_pieces_and_whole(server: Server) -> None:
    topic = server.new_topic()
    messages = [{"topic": topic, "value": "x" * 20_000}] * 100
    for _ in range(10):
        assert server.post("/v1/produce/batch", {"messages": messages}).status == 200
    assert read(server, topic) == [(0, offset) for offset in range(1000)]
    with server.open() as client:
        client.sendall(b"GET /v1/topics/%b/records HTTP/1.1\r\nHost: localhost\r\n\r\n" % topic.encode())
        assert client.recv(1000)
        assert server.get("/v1/healthz").status == 200


@pytest.mark.clause("P4", "H1")
def test_a_reader_holds_producers_back_until_it_reports(small_server: Server) -> None:
    topic = small_server.new_topic()
    for _ in range(2):
        small_server.produce(topic, "v")
    report = f"/v1/topics/{topic}/readers"
    assert small_server.post(report, {"reader": "export", "offsets": {"0": 1}}).status == 204
    small_server.produce(topic, "v")
    small_server.post("/v1/produce", {"topic": topic, "value": "v"}).refused(429, "RESOURCE_EXHAUSTED")
    (reader,) = small_server.get(f"/v1/topics/{topic}").json["readers"]
    assert (reader["reader"], reader["next_offset"], reader["lag"]) == ("export", 1, 2)
    assert small_server.post(report, {"reader": "export", "offsets": {"0": 3}}).status == 204
    small_server.produce(topic, "v")


@pytest.mark.clause("H2")
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"reader": ""},
        {"reader": "a\nb"},
        {"reader": "r", "offsets": {"x": 1}},
        {"reader": "r", "offsets": {"01": 1}},
        {"reader": "r", "offsets": {"9": 1}},
        {"reader": "r", "offsets": {"0": -1}},
        {"reader": "r", "offsets": {"0": "1"}},
        {"reader": "r", "offsets": [1]},
    ],
)
def test_a_report_is_checked(server: Server, body: dict[str, Any]) -> None:
    topic = server.new_topic()
    server.post(f"/v1/topics/{topic}/readers", body).refused(400, "INVALID_ARGUMENT")
    server.post("/v1/topics/nowhere/readers", {"reader": "r"}).refused(404, "NOT_FOUND")

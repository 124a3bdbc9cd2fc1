"""Appending by position over HTTP: repeated, refused, across a kill."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import driftq
from tests.contract.serving import Answer, Server


def append(server: Server, topic: str, positions: list[int], **fields: Any) -> Answer:
    messages = [{"position": position, "key": "k", "value": f"v{position}"} for position in positions]
    body = {"writer": "w", "lane": 0, "epoch": 1, "messages": messages} | fields
    return server.post(f"/v1/topics/{topic}/append", body)


def stored(server: Server, topic: str) -> list[str]:
    return [line["value"] for line in server.get(f"/v1/topics/{topic}/records").lines]


@pytest.fixture
def client(server: Server) -> Iterator[driftq.Client]:
    with driftq.Client(f"http://127.0.0.1:{server.port}") as connected:
        yield connected


@pytest.mark.clause("Z2")
def test_a_repeated_append_adds_nothing(server: Server) -> None:
    topic = server.new_topic()
    assert append(server, topic, [0, 1]).json == {"appended": 2, "skipped": 0, "position": 1}
    assert append(server, topic, [0, 1, 5]).json == {"appended": 1, "skipped": 2, "position": 5}
    assert append(server, topic, []).json == {"appended": 0, "skipped": 0, "position": 5}
    assert stored(server, topic) == ["v0", "v1", "v5"]
    view = server.get(f"/v1/topics/{topic}").json["writers"]
    assert view == [{"writer": "w", "epoch": 1, "lanes": {"0": 5}}]


@pytest.mark.clause("Z2")
def test_a_writer_that_begins_again_shuts_out_its_older_run(server: Server) -> None:
    topic = server.new_topic()
    path = f"/v1/topics/{topic}/writers"
    assert server.post(path, {"writer": "w"}).json == {"epoch": 1, "lanes": {}}
    append(server, topic, [3], lane=7)
    assert server.post(path, {"writer": "w"}).json == {"epoch": 2, "lanes": {"7": 3}}
    refused = append(server, topic, [4], lane=7).refused(409, "FAILED_PRECONDITION")
    assert (refused["reason"], refused["newest"]) == ("writer_fenced", 2)
    assert stored(server, topic) == ["v3"]


@pytest.mark.clause("Z2")
@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"lane": -1}, "lane"),
        ({"lane": 70_000}, "lane"),
        ({"epoch": -1}, "epoch"),
        ({"writer": ""}, "writer"),
        ({"writer": "a\nb"}, "writer"),
        ({"messages": [{"position": 1, "value": "a"}, {"position": 1, "value": "b"}]}, "positions must rise"),
        ({"messages": [{"value": "a"}]}, "position"),
        ({"messages": [{"position": 1, "value": "a", "envelope": {"target_topic": "x"}}]}, "target_topic"),
        ({"messages": [{"position": 1, "value": "a", "envelope": {"partition_override": 9}}]}, "override"),
        ({"other": 1}, "other"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(
    server: Server, fields: dict[str, Any], problem: str
) -> None:
    topic = server.new_topic()
    assert problem in append(server, topic, [0], **fields).refused(400, "INVALID_ARGUMENT")["message"]
    assert stored(server, topic) == []


@pytest.mark.clause("Z2")
def test_a_topic_is_not_made_by_appending(server: Server) -> None:
    append(server, "nowhere", [0]).refused(404, "NOT_FOUND")
    server.post("/v1/topics/nowhere/writers", {"writer": "w"}).refused(404, "NOT_FOUND")
    append(server, "dlq.orders", [0]).refused(400, "INVALID_ARGUMENT")
    server.post("/v1/topics/nowhere/append").refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("P4", "Z2")
def test_an_append_that_finds_no_room_is_told_when_to_come_again(small_server: Server) -> None:
    topic = small_server.new_topic()
    refused = append(small_server, topic, [0, 1, 2])
    assert refused.refused(429, "RESOURCE_EXHAUSTED")["reason"] == "overloaded"
    assert "Retry-After" in refused.headers
    assert append(small_server, topic, [0, 1]).json["appended"] == 2


@pytest.mark.clause("Z2", "U2")
def test_the_client_appends_and_names_the_refusals(client: driftq.Client, server: Server) -> None:
    topic = server.new_topic(2)
    opened = client.writer(topic, "importer")
    messages = [
        driftq.PositionedMessage(
            number, f"v{number}", key=f"k{number % 3}", envelope=driftq.Envelope(run_id="r")
        )
        for number in range(6)
    ]
    first = client.append(topic, messages[:4], writer="importer", epoch=opened.epoch, lane=2)
    again = client.append(topic, messages, writer="importer", epoch=opened.epoch, lane=2, after=3)
    assert (first.appended, again.appended, again.skipped, again.position) == (4, 2, 4, 5)
    by_offset = sorted(client.records(topic), key=lambda one: one.offset)
    assert [one.value for one in by_offset] == [f"v{number}" for number in range(6)]
    assert {one.envelope.run_id for one in client.records(topic) if one.envelope} == {"r"}
    with pytest.raises(driftq.LaneBehind):
        client.append(topic, messages, writer="importer", epoch=opened.epoch, lane=2, after=9)
    assert client.writer(topic, "importer").lanes == {2: 5}
    with pytest.raises(driftq.WriterFenced) as refused:
        client.append(topic, messages, writer="importer", epoch=opened.epoch, lane=2)
    assert refused.value.newest == opened.epoch + 1


@pytest.mark.clause("Z2", "Z6")
def test_a_kill_between_appends_costs_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    """The writer does not know which of its appends were confirmed, so it says everything again."""
    with Server(tmp_path / "log") as server:
        topic = server.new_topic(3)
        for round_ in range(4):
            opened = server.post(f"/v1/topics/{topic}/writers", {"writer": "w"}).json
            assert opened["epoch"] == round_ + 1
            for first in range(0, (round_ + 1) * 30, 10):
                append(server, topic, list(range(first, first + 10)), epoch=opened["epoch"])
            server.kill()
            server.start()
        assert stored(server, topic) == [f"v{position}" for position in range(120)]
        assert append(server, topic, [119], epoch=4).json == {"appended": 0, "skipped": 1, "position": 119}

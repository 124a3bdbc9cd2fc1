"""Counting messages between offsets, which have holes in a partition."""

from typing import Any

import pytest

from tests.contract.serving import Server
from tests.contract.test_records import fill


def span(server: Server, topic: str, **asked: Any) -> dict[str, Any]:
    answer = server.post(f"/v1/topics/{topic}/spans", {"spans": [asked]})
    assert answer.status == 200, answer
    (found,) = answer.json["spans"]
    return dict(found)


@pytest.mark.clause("Z2")
def test_messages_are_counted_and_not_offsets(server: Server) -> None:
    topic = fill(server, 3, 30)
    whole = span(server, topic, partition=1)
    assert whole == {
        "partition": 1,
        "first_offset": 0,
        "from": 0,
        "to": 29,
        "messages": 10,
        "behind": 10,
        "cuts": [],
    }
    limited = span(server, topic, partition=1, limit=4, **{"from": 5})
    assert (limited["to"], limited["messages"], limited["behind"]) == (17, 4, 8)
    ended = span(server, topic, partition=1, to=16, **{"from": 5})
    assert (ended["to"], ended["messages"], ended["behind"]) == (14, 3, 8)
    cut = span(server, topic, partition=1, every=3)
    assert cut["cuts"] == [10, 19, 28]
    for one in (*cut["cuts"], cut["to"]):
        assert (
            span(server, topic, partition=1, **{"from": one})["behind"]
            == 10 - span(server, topic, partition=1, to=one)["messages"]
        )


@pytest.mark.clause("Z2")
def test_a_span_may_be_empty(server: Server) -> None:
    topic = fill(server, 2, 4)
    for asked in ({"from": 100}, {"from": 3, "to": 1}, {"limit": 0}):
        found = span(server, topic, partition=0, **asked)
        assert (found["messages"], found["to"]) == (0, asked.get("from", 0))
    empty = server.new_topic(2)
    answer = server.post(f"/v1/topics/{empty}/spans", {}).json
    assert [(one["partition"], one["messages"], one["to"]) for one in answer["spans"]] == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    assert (answer["next_offset"], answer["partitions"], answer["table"]) == (0, 2, False)


@pytest.mark.clause("H2")
@pytest.mark.parametrize(
    "asked",
    [{}, {"partition": 2}, {"partition": -1}, {"partition": 0, "from": -1}, {"partition": 0, "every": 0}],
)
def test_what_cannot_be_a_span_is_refused(server: Server, asked: dict[str, Any]) -> None:
    topic = server.new_topic(2)
    server.post(f"/v1/topics/{topic}/spans", {"spans": [asked]}).refused(400, "INVALID_ARGUMENT")
    server.post("/v1/topics/nowhere/spans", {}).refused(404, "NOT_FOUND")

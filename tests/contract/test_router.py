"""A router is asked before a message is stored, and never stands in its way."""

import time
from collections.abc import Iterator

import pytest

from tests.contract.serving import Server


@pytest.fixture(scope="module")
def routed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("routed") / "log"
    with Server(folder, router="tests.contract.routers:route", router_timeout_ms=200) as running:
        yield running


@pytest.mark.clause("R1", "R4")
def test_a_label_is_stored_and_delivered(routed: Server) -> None:
    topic = routed.new_topic()
    routed.produce(topic, "label finance", "k")
    routing = {"label": "finance", "meta": {"topic": topic, "key": "k"}}
    with routed.consume(topic) as stream:
        assert stream.next()["routing"] == routing
    assert routed.get(f"/v1/topics/{topic}/records").lines[0]["routing"] == routing


@pytest.mark.clause("R1")
def test_the_router_wins_over_the_envelope_and_the_envelope_over_the_key(routed: Server) -> None:
    topic, target = routed.new_topic(3), routed.new_topic(3)
    moved = routed.produce(topic, f"to {target}", target_topic=topic)
    assert moved["topic"] == target
    assert routed.produce(topic, "partition 2", "user:1", partition_override=0)["partition"] == 2
    assert routed.produce(topic, "plain", "user:1", partition_override=0)["partition"] == 0
    assert routed.produce(topic, "plain", "user:1")["partition"] == 1


@pytest.mark.clause("R2")
@pytest.mark.parametrize("value", ["raise", "nonsense", "to nowhere", "partition 99", "hang"])
def test_a_router_that_fails_changes_nothing(routed: Server, value: str) -> None:
    topic = routed.new_topic()
    began = time.monotonic()
    assert routed.produce(topic, value)["topic"] == topic
    assert time.monotonic() - began < 30, "the router that hangs was waited for"
    with routed.consume(topic) as stream:
        line = stream.next()
    assert line["value"] == value
    assert "routing" not in line
    text = routed.get("/v1/metrics").content.decode()
    assert "driftq_router_failures_total 0" not in text


@pytest.mark.clause("R1", "P6")
def test_every_message_of_a_batch_is_routed(routed: Server) -> None:
    topic, target = routed.new_topic(), routed.new_topic()
    values = ["label x", f"to {target}", "raise", "plain"]
    answer = routed.post(
        "/v1/produce/batch", {"messages": [{"topic": topic, "value": value} for value in values]}
    )
    assert [result["topic"] for result in answer.json["results"]] == [topic, target, topic, topic]


@pytest.mark.clause("R2", "H2")
def test_bad_requests_are_refused_as_without_a_router(routed: Server) -> None:
    routed.post("/v1/produce", {"topic": "nowhere", "value": "v"}).refused(404, "NOT_FOUND")
    body = {"topic": "t", "value": "v", "envelope": {"deadline": "never"}}
    routed.post("/v1/produce", body).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("R3")
def test_without_a_router_nothing_is_added(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "label x")
    with server.consume(topic) as stream:
        assert "routing" not in stream.next()


@pytest.mark.clause("R5")
def test_a_dead_letter_stays_where_it_was_given_up(routed: Server) -> None:
    """The router would send this text on; nobody asks it about a dead letter."""
    topic, target = routed.new_topic(), routed.new_topic()
    routed.produce(topic, f"to {target}")
    with routed.consume(target, lease_ms=30_000) as stream:
        assert routed.settle("nack", target, stream.next(), retryable=False).status == 204
    [letter] = routed.get(f"/v1/dlq/{target}").json["messages"]
    assert letter["value"] == f"to {target}"
    assert routed.get(f"/v1/topics/{target}").json["partitions"][0]["messages"] == 1

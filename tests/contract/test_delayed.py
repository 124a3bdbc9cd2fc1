"""Delayed messages over HTTP: held back until `deliver_at`, and seen by everything that is no group."""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import pytest

from driftq.model.time import parse_rfc3339
from tests.contract.serving import Server


def instant(seconds: float) -> str:
    return (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=seconds)).isoformat()


def now_ms() -> float:
    return time.time() * 1000


@pytest.mark.clause("P9", "E1")
@pytest.mark.parametrize("how", ["body", "query", "batch"])
def test_a_message_comes_at_its_instant_and_not_before(server: Server, how: str) -> None:
    topic, at = server.new_topic(), instant(0.7)
    match how:
        case "body":
            body = {"topic": topic, "value": "later", "envelope": {"deliver_at": at}}
            assert server.post("/v1/produce", body).status == 200
        case "query":
            asked = server.post("/v1/produce", topic=topic, value="later", deliver_at=at)
            assert asked.status == 200, asked
        case "batch":
            messages = [
                {"topic": topic, "value": "later", "envelope": {"deliver_at": at}},
                *[{"topic": topic, "value": "plain"}] * 6,
            ]
            assert server.post("/v1/produce/batch", {"messages": messages}).json["produced"] == 7
    if how != "batch":
        server.produce(topic, "plain")
    with server.consume(topic) as stream:
        assert stream.next()["value"] == "plain"
        rest = stream.take(6) if how == "batch" else [stream.next()]
    delivery = rest[-1]
    assert delivery["value"] == "later"
    assert now_ms() >= parse_rfc3339(at)
    assert delivery["envelope"] == {"deliver_at": at}, "as the producer wrote it"
    assert delivery["attempts"] == 1


@pytest.mark.clause("P9")
def test_an_instant_that_is_past_delays_nothing(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "now", deliver_at="2001-01-01T00:00:00Z")
    server.produce(topic, "next")
    with server.consume(topic) as stream:
        assert [line["value"] for line in stream.take(2)] == ["now", "next"]


@pytest.mark.clause("P9")
@pytest.mark.parametrize(
    "envelope",
    [
        {"deliver_at": "tomorrow"},
        {"deliver_at": "2099-01-01T00:00:00"},
        {"deliver_at": "2099-01-01T00:00:00Z", "deadline": "2099-01-01T00:00:00Z"},
        {"deliver_at": "2099-01-01T00:00:01Z", "deadline": "2099-01-01T00:00:00Z"},
    ],
)
def test_an_instant_that_cannot_be_is_refused(server: Server, envelope: dict[str, Any]) -> None:
    topic = server.new_topic()
    body = {"topic": topic, "value": "v", "envelope": envelope}
    named = "deadline" if "deadline" in envelope else "deliver_at"
    assert named in server.post("/v1/produce", body).refused(400, "INVALID_ARGUMENT")["message"]
    assert server.get(f"/v1/topics/{topic}").json["partitions"][0]["messages"] == 0


@pytest.mark.clause("P9", "I2")
def test_a_repeated_produce_of_a_delayed_message_is_a_duplicate(server: Server) -> None:
    topic, at = server.new_topic(), instant(3_600)
    envelope = {"deliver_at": at, "idempotency_key": "once"}
    body = {"topic": topic, "value": "v", "envelope": envelope}
    first = server.post("/v1/produce", body).json
    again = server.post("/v1/produce", body).json
    assert (first["offset"], again["offset"], again["duplicate"]) == (0, 0, True)


@pytest.mark.clause("P9", "E5")
def test_records_views_and_explain_show_it_at_once(server: Server) -> None:
    topic, at = server.new_topic(), instant(3_600)
    server.produce(topic, "later", deliver_at=at)
    with server.consume(topic) as stream:
        server.produce(topic, "plain")
        assert stream.next()["value"] == "plain"
        [group] = server.get(f"/v1/topics/{topic}").json["groups"]
    assert (group["lag"], group["delayed"]) == (2, 1)
    records = server.get(f"/v1/topics/{topic}/records").lines
    assert [line["value"] for line in records] == ["later", "plain"]
    view = server.get(f"/v1/messages/{topic}/0").json
    [stored] = view["history"]
    assert parse_rfc3339(stored["waits_until"]) == parse_rfc3339(at)
    assert view["groups"][0]["state"] == "waiting"
    metrics = server.get("/v1/metrics").content.decode()
    assert f'driftq_topic_delayed{{topic="{topic}"}} 1' in metrics


@pytest.mark.clause("P9", "D4", "D7")
def test_a_dead_letter_keeps_the_instant_and_a_redrive_drops_it(server: Server) -> None:
    topic, at = server.new_topic(), instant(0.2)
    server.produce(topic, "fragile", deliver_at=at, retry_policy={"max_attempts": 1})
    with server.consume(topic) as stream:
        assert server.settle("nack", topic, stream.next(), reason="boom").status == 204
        with server.consume(f"dlq.{topic}") as dead:
            assert dead.next()["envelope"]["deliver_at"] == at
        assert server.post(f"/v1/dlq/{topic}/redrive", {}).json["redriven"] == 1
        again = stream.next()
    assert (again["offset"], again["value"]) == (1, "fragile")
    assert "deliver_at" not in again["envelope"]


@pytest.mark.clause("P9", "R1")
def test_a_delayed_message_may_go_to_another_topic(server: Server) -> None:
    asked, target = server.new_topic(), server.new_topic()
    server.produce(asked, "later", target_topic=target, deliver_at=instant(0.3))
    with server.consume(target) as stream:
        assert stream.next()["value"] == "later"

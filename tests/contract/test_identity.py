"""Offsets, attempts and effects of what is deleted or reset never stand for what comes after."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.serving import Server
from tests.contract.test_effects import Effect
from tests.support.waiting import wait_until

LONG_MS = 600_000


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Server]:
    """A server of the test's own, which may be killed."""
    with Server(tmp_path / "log") as running:
        yield running


def renew(server: Server, topic: str, partitions: int = 1) -> None:
    """Delete the topic and make it again."""
    assert server.delete(f"/v1/topics/{topic}").status == 200
    assert server.post("/v1/topics", {"name": topic, "partitions": partitions}).status == 201


def taken(server: Server, topic: str, *, lease_ms: int = LONG_MS, **query: Any) -> dict[str, Any]:
    """The next delivery, on a stream that is closed again."""
    with server.consume(topic, lease_ms=lease_ms, prefetch=1, **query) as stream:
        return stream.next()


def lag(server: Server, topic: str) -> int:
    return sum(group["lag"] for group in server.get(f"/v1/topics/{topic}").json["groups"])


@pytest.mark.clause("A7", "W3")
@pytest.mark.parametrize("crash", [False, True], ids=["running", "killed"])
def test_after_a_reset_the_old_holders_ack_is_stale(mortal: Server, *, crash: bool) -> None:
    topic = mortal.new_topic()
    mortal.produce(topic, "v")
    old = taken(mortal, topic)
    assert mortal.post(f"/v1/topics/{topic}/groups/g/reset", {"to": "earliest"}).status == 200
    if crash:
        mortal.kill()
        mortal.start()
    new = taken(mortal, topic)
    assert (old["attempts"], new["attempts"], new["tries"]) == (1, 2, 1)
    assert "tries" not in old
    for verb, fields in (("ack", {}), ("nack", {}), ("lease/extend", {"lease_ms": 1_000})):
        refused = mortal.settle(verb, topic, old, attempt=1, **fields).refused(409, "FAILED_PRECONDITION")
        assert "attempt" in refused["message"]
    assert lag(mortal, topic) == 1
    assert mortal.settle("ack", topic, new, attempt=2).status == 204


@pytest.mark.clause("A7")
def test_a_group_that_was_deleted_and_comes_again_fences_its_old_holders(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v")
    old = taken(server, topic)
    assert server.delete(f"/v1/topics/{topic}/groups/g").status == 200
    new = taken(server, topic)
    assert new["attempts"] == 2
    server.settle("ack", topic, old, attempt=old["attempts"]).refused(409, "FAILED_PRECONDITION")
    assert lag(server, topic) == 1


@pytest.mark.clause("T4", "A1", "W2")
@pytest.mark.parametrize("partitions", [1, 3])
def test_a_topic_made_again_goes_on_behind_its_old_offsets(mortal: Server, partitions: int) -> None:
    topic = mortal.new_topic()
    for value in ("a", "b"):
        mortal.produce(topic, value)
    old = taken(mortal, topic)
    assert mortal.delete(f"/v1/topics/{topic}").status == 200
    mortal.kill()
    mortal.start()
    assert mortal.post("/v1/topics", {"name": topic, "partitions": partitions}).status == 201
    mortal.kill()
    mortal.start()
    view = mortal.get(f"/v1/topics/{topic}").json
    assert view["start_offset"] == 2
    assert [(one["first_offset"], one["next_offset"]) for one in view["partitions"]] == [(2, 2)] * partitions
    assert mortal.produce(topic, "c")["offset"] == 2
    new = taken(mortal, topic)
    assert (new["offset"], new["value"], new["attempts"]) == (2, "c", 1)
    for verb, fields in (("ack", {}), ("nack", {}), ("lease/extend", {"lease_ms": 1_000})):
        answer = mortal.settle(verb, topic, old, **fields).refused(409, "FAILED_PRECONDITION")
        assert answer["message"] == "no current delivery"
    assert lag(mortal, topic) == 1
    records = mortal.get(f"/v1/topics/{topic}/records", **{"from": 0}).lines
    assert [(one["offset"], one["value"]) for one in records] == [(2, "c")]


@pytest.mark.clause("I2", "T4")
def test_a_key_of_a_deleted_topic_claims_nothing_in_the_new_one(server: Server) -> None:
    topic = server.new_topic()
    first = server.produce(topic, "v", idempotency_key="k")
    renew(server, topic)
    again = server.produce(topic, "other", idempotency_key="k")
    assert (first["offset"], again["offset"], again["duplicate"]) == (0, 1, False)
    known = server.produce(topic, "other", idempotency_key="k")
    assert (known["offset"], known["duplicate"]) == (1, True)


@pytest.mark.clause("I1", "I2")
def test_a_key_whose_message_lives_elsewhere_is_still_claimed(server: Server) -> None:
    requested, target = server.new_topic(), server.new_topic()
    body = {"idempotency_key": "k", "target_topic": target}
    first = server.produce(requested, "v", **body)
    renew(server, requested)
    again = server.produce(requested, "v", **body)
    assert (again["topic"], again["offset"], again["duplicate"]) == (target, first["offset"], True)
    renew(server, target)
    assert server.produce(requested, "v", **body)["duplicate"] is False


def wait_for_lag(server: Server, topic: str, lag_wanted: int) -> None:
    wait_until(f"the lag of {topic} is {lag_wanted}", lambda: lag(server, topic) == lag_wanted)


def effect_of(server: Server, topic: str, key: str = "k") -> Effect:
    return Effect(server, topic=topic, group="g", idempotency_key=key)


@pytest.mark.clause("T4", "I6", "I9")
def test_a_committed_effect_of_a_deleted_topic_neither_stops_nor_settles_a_new_message(
    mortal: Server,
) -> None:
    topic = mortal.new_topic()
    mortal.produce(topic, "old", idempotency_key="k")
    effect = effect_of(mortal, topic)
    effect.ask("commit", token=effect.begin()["token"], result="old")
    renew(mortal, topic)
    mortal.kill()
    mortal.start()
    mortal.produce(topic, "new", idempotency_key="k")
    effect.status().refused(404, "NOT_FOUND")
    with mortal.consume(topic, lease_ms=50) as stream:
        lapsed, again = stream.take(2)
        assert [one["value"] for one in (lapsed, again)] == ["new", "new"]
    assert effect.begin()["outcome"] == "proceed"


@pytest.mark.clause("I9", "T4")
def test_an_effect_of_this_very_topic_settles_its_lapsed_message(server: Server) -> None:
    topic = server.new_topic()
    renew(server, topic)
    server.produce(topic, "v", idempotency_key="k")
    effect = effect_of(server, topic)
    effect.ask("commit", token=effect.begin()["token"])
    with server.consume(topic, lease_ms=50) as stream:
        assert stream.next()["value"] == "v"
        server.produce(topic, "behind")
        assert stream.next()["value"] == "behind"
        wait_for_lag(server, topic, 1)


@pytest.mark.clause("I9", "T4")
def test_an_old_message_that_went_elsewhere_keeps_its_effect(server: Server) -> None:
    requested, target = server.new_topic(), server.new_topic()
    server.produce(requested, "old", idempotency_key="k", target_topic=target)
    effect = effect_of(server, requested)
    effect.ask("commit", token=effect.begin()["token"])
    renew(server, requested)
    server.produce(requested, "new", idempotency_key="other", target_topic=target)
    with server.consume(target, lease_ms=50) as stream:
        first, second = stream.take(2)
        assert (first["value"], second["value"]) == ("old", "new")
        assert stream.next()["value"] == "new"  # The old one was settled when its lease was over.
        wait_for_lag(server, target, 1)


@pytest.mark.clause("T4", "I6", "I7")
def test_begin_may_say_that_it_is_for_a_delivery_of_the_deleted_topic(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "old", idempotency_key="k")
    old = taken(server, topic)
    renew(server, topic)
    new = server.produce(topic, "new", idempotency_key="k")
    effect = effect_of(server, topic)
    token = effect.ask("begin", lease_ms=LONG_MS, offset=old["offset"]).json["token"]
    effect.ask("commit", token=token, result="old")
    query = effect.identity | {"offset": old["offset"]}
    assert server.get("/v1/idempotency/status", **query).json["result"] == "old"
    begun = effect.ask("begin", lease_ms=LONG_MS, offset=old["offset"]).json
    assert begun == {"outcome": "already_committed", "result": "old"}
    assert effect.ask("begin", lease_ms=LONG_MS, offset=new["offset"]).json["outcome"] == "proceed"


@pytest.mark.clause("T4", "I6", "I7")
def test_begin_may_say_that_it_is_for_a_message_that_was_sent_there_before(server: Server) -> None:
    requested, target = server.new_topic(), server.new_topic()
    old = server.produce(requested, "old", idempotency_key="k", target_topic=target)
    effect = effect_of(server, requested)
    effect.ask("commit", token=effect.begin()["token"], result="old")
    renew(server, requested)
    new = server.produce(requested, "new", idempotency_key="other", target_topic=target)
    asked: dict[str, Any] = {"lease_ms": LONG_MS, "source_topic": target}
    begun = effect.ask("begin", **asked, offset=old["offset"]).json
    assert begun == {"outcome": "already_committed", "result": "old"}
    assert effect.ask("begin", **asked, offset=new["offset"]).json["outcome"] == "proceed"
    effect.ask("begin", **asked).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("T4", "I6")
def test_an_effect_under_way_for_a_deleted_topic_holds_nobody_and_ends_by_itself(server: Server) -> None:
    topic = server.new_topic()
    effect = effect_of(server, topic)
    old = effect.begin("a", lease_ms=LONG_MS)["token"]
    renew(server, topic)
    new = effect.begin("b", lease_ms=LONG_MS)["token"]
    assert new > old
    assert effect.ask("extend", "a", token=old, lease_ms=LONG_MS).status == 204
    assert effect.ask("commit", "a", token=old, result="old").status == 204
    assert effect.ask("commit", "a", token=old, result="old").status == 204  # Said twice.
    assert effect.begin("c")["outcome"] == "held"
    assert effect.ask("commit", "b", token=new, result="new").status == 204
    assert effect.begin("c") == {"outcome": "already_committed", "result": "new"}


@pytest.mark.clause("T4", "I6")
def test_a_failure_for_a_deleted_topic_is_not_the_new_ones(server: Server) -> None:
    topic = server.new_topic()
    effect = effect_of(server, topic)
    token = effect.begin()["token"]
    effect.ask("fail", token=token, error="boom")
    assert effect.status().json["last_error"] == "boom"
    renew(server, topic)
    effect.status().refused(404, "NOT_FOUND")
    assert effect.ask("fail", token=token, error="boom").status == 204  # Said twice.


@pytest.mark.clause("T4", "I6")
def test_an_effect_that_ends_between_the_topics_is_the_old_ones(server: Server) -> None:
    topic = server.new_topic()
    effect = effect_of(server, topic)
    server.delete(f"/v1/topics/{topic}")
    effect.ask("commit", token=effect.begin()["token"])
    assert effect.begin()["outcome"] == "already_committed"
    server.post("/v1/topics", {"name": topic})
    assert effect.begin()["outcome"] == "proceed"


@pytest.mark.clause("I6")
def test_an_effect_of_a_name_that_never_was_a_topic_stays_when_it_becomes_one(server: Server) -> None:
    effect = Effect(server, topic="not-yet", group="g")
    effect.ask("commit", token=effect.begin()["token"], result=1)
    assert server.post("/v1/topics", {"name": "not-yet"}).status == 201
    assert effect.begin() == {"outcome": "already_committed", "result": 1}


@pytest.mark.clause("T4", "D4")
def test_dead_letters_stay_when_their_topic_is_deleted_and_their_offsets_go_on_too(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v")
    server.settle("nack", topic, taken(server, topic), retryable=False)
    renew(server, topic)
    assert taken(server, f"dlq.{topic}")["value"] == "v"
    server.delete(f"/v1/topics/dlq.{topic}")
    server.produce(topic, "w")
    server.settle("nack", topic, taken(server, topic), retryable=False)
    letter = taken(server, f"dlq.{topic}")
    assert (letter["offset"], letter["value"]) == (1, "w")

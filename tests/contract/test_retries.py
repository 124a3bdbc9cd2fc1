"""Retries by policy, and what becomes of messages that are given up."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.job_queue import instant
from tests.contract.serving import Server, Stream
from tests.support.waiting import wait_until


def commits(server: Server) -> int:
    text = server.get("/v1/metrics").content.decode()
    found = next(line for line in text.splitlines() if line.startswith("driftq_commits_total"))
    return int(float(found.split()[1]))


def group_of(server: Server, topic: str, group: str = "g") -> dict[str, Any]:
    groups = server.get(f"/v1/topics/{topic}").json["groups"]
    return dict(next(one for one in groups if one["group"] == group))


def dead_letters(server: Server, topic: str) -> list[dict[str, Any]]:
    answer = server.get(f"/v1/topics/dlq.{topic}/records")
    return answer.lines if answer.status == 200 else []


def exhaust(server: Server, topic: str, stream: Stream, attempts: int) -> dict[str, Any]:
    """Nack every attempt; the last delivery."""
    line = {}
    for attempt in range(1, attempts + 1):
        line = stream.next()
        assert line["attempts"] == attempt
        assert server.settle("nack", topic, line, reason=f"failure {attempt}", attempt=attempt).status == 204
    return line


@pytest.mark.clause("D1", "D3", "D4", "E4")
def test_a_message_that_fails_too_often_becomes_a_dead_letter(server: Server) -> None:
    topic = server.new_topic(3)
    envelope = {
        "tenant_id": "acme",
        "idempotency_key": "order-1",
        "run_id": "r",
        "retry_policy": {"max_attempts": 2, "backoff_ms": 10, "max_backoff_ms": 20},
    }
    placed = server.produce(topic, "two coffees", "user:1", **envelope)
    with server.consume(topic) as stream:
        exhaust(server, topic, stream, 2)
        assert stream.is_quiet(200)
    assert group_of(server, topic)["lag"] == 0
    assert len(server.get(f"/v1/topics/dlq.{topic}").json["partitions"]) == 3
    with server.consume(f"dlq.{topic}") as graves:
        letter = graves.next()
    assert (letter["key"], letter["value"], letter["partition"]) == (
        "user:1",
        "two coffees",
        placed["partition"],
    )
    facts = letter["envelope"].pop("dlq")
    assert letter["envelope"] == envelope
    assert abs(instant(facts.pop("at")) - time.time()) < 3_600, "now, not some other day"
    assert facts == {
        "original_topic": topic,
        "original_partition": placed["partition"],
        "original_offset": placed["offset"],
        "group": "g",
        "attempts": 2,
        "last_error": "failure 2",
        "reason": "max_attempts",
    }


@pytest.mark.clause("D4")
def test_giving_up_is_one_durable_write(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v", retry_policy={"max_attempts": 1})
    with server.consume(topic, lease_ms=30_000) as stream:
        line = stream.next()
        before = commits(server)
        assert server.settle("nack", topic, line, reason="no").status == 204
        assert commits(server) == before + 1
    assert len(dead_letters(server, topic)) == 1


@pytest.mark.clause("D3", "D4", "A6")
def test_a_lease_that_ends_counts_as_a_failure(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v", retry_policy={"max_attempts": 2, "backoff_ms": 10})
    with server.consume(topic, lease_ms=80) as stream:
        assert [line["attempts"] for line in stream.take(2)] == [1, 2]
        with _dead_letter_stream(server, topic) as graves:
            facts = graves.next()["envelope"]["dlq"]
        assert stream.is_quiet(200)
    assert (facts["attempts"], facts["last_error"]) == (2, "ack_timeout")


def _dead_letter_stream(server: Server, topic: str) -> Any:
    """A stream of the dead letters, as soon as there are any."""
    wait_until("there is a dead letter", lambda: bool(dead_letters(server, topic)))
    return server.consume(f"dlq.{topic}")


@pytest.mark.clause("D3")
def test_an_ack_of_the_last_attempt_counts(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v", retry_policy={"max_attempts": 1})
    with server.consume(topic) as stream:
        assert server.settle("ack", topic, stream.next()).status == 204
    assert dead_letters(server, topic) == []


@pytest.mark.clause("D5", "E4")
def test_what_is_not_retryable_is_given_up_at_once(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v")
    with server.consume(topic) as stream:
        line = stream.next()
        assert server.settle("nack", topic, line, reason="never", retryable=False).status == 204
        server.settle("nack", topic, line).refused(409, "FAILED_PRECONDITION")
        assert server.settle("ack", topic, line).status == 204
        assert stream.is_quiet(250)
    facts = dead_letters(server, topic)[0]["envelope"]["dlq"]
    assert (facts["reason"], facts["attempts"], facts["last_error"]) == ("not_retryable", 1, "never")


@pytest.mark.clause("D2")
def test_a_policy_says_when_to_come_again(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v", retry_policy={"backoff_ms": 200, "max_backoff_ms": 300})
    with server.consume(topic, lease_ms=30_000) as stream:
        waits = []
        for _ in range(3):
            line = stream.next()
            nacked = time.monotonic()
            assert server.settle("nack", topic, line).status == 204
            assert not stream.is_quiet(30_000)
            waits.append((time.monotonic() - nacked) * 1000)
    assert waits[0] >= 200
    assert min(waits[1:]) >= 225  # At the cap, three quarters of it at least.


@pytest.mark.clause("D2", "H2")
@pytest.mark.parametrize(
    "policy",
    [
        {"max_attempts": -1},
        {"backoff_ms": -1},
        {"max_backoff_ms": -1},
        {"backoff_ms": 100, "max_backoff_ms": 99},
        {"backoff_ms": 30_001},
        {"attempts": 1},
    ],
)
def test_a_policy_that_cannot_be_followed_is_refused(server: Server, policy: dict[str, int]) -> None:
    topic = server.new_topic()
    body = {"topic": topic, "value": "v", "envelope": {"retry_policy": policy}}
    server.post("/v1/produce", body).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("P3", "E4")
def test_a_deadline_that_passes_is_not_delivered(server: Server) -> None:
    topic = server.new_topic()
    soon = (dt.datetime.now(dt.UTC) + dt.timedelta(seconds=4)).isoformat()
    server.produce(topic, "late", deadline=soon)
    server.produce(topic, "patient")
    time.sleep(4.1)
    with server.consume(topic) as stream:
        assert stream.next()["value"] == "patient"
    (letter,) = dead_letters(server, topic)
    facts = letter["envelope"]["dlq"]
    assert (letter["value"], facts["reason"], facts["last_error"], facts["attempts"]) == (
        "late",
        "deadline_exceeded",
        "deadline_exceeded",
        0,
    )
    with server.consume(f"dlq.{topic}") as graves:
        assert graves.next()["envelope"]["deadline"] == soon  # Dead letters have no deadline.


@pytest.mark.clause("P3")
def test_a_deadline_that_passes_between_attempts_ends_them(server: Server) -> None:
    topic = server.new_topic()
    soon = (dt.datetime.now(dt.UTC) + dt.timedelta(milliseconds=200)).isoformat()
    server.produce(topic, "v", deadline=soon)
    with server.consume(topic) as stream:
        assert server.settle("nack", topic, stream.next(), reason="first").status == 204
        assert server.settle("nack", topic, stream.next(), reason="second").status == 204
        assert stream.is_quiet(400)
    facts = dead_letters(server, topic)[0]["envelope"]["dlq"]
    assert (facts["reason"], facts["attempts"]) == ("deadline_exceeded", 2)


@pytest.mark.clause("D4", "G3")
def test_each_group_that_gives_up_has_its_own_letter(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v", retry_policy={"max_attempts": 1})
    for group in ("one", "two", "three"):
        with server.consume(topic, group=group) as stream:
            line = stream.next()
            verb = "ack" if group == "two" else "nack"
            assert server.settle(verb, topic, line, group=group).status == 204
    letters = dead_letters(server, topic)
    assert [letter["envelope"]["dlq"]["group"] for letter in letters] == ["one", "three"]


@pytest.mark.clause("D7", "D4")
def test_in_a_dead_letter_topic_nothing_is_ever_given_up(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v", retry_policy={"max_attempts": 1})
    with server.consume(topic) as stream:
        assert server.settle("nack", topic, stream.next()).status == 204
    grave = f"dlq.{topic}"
    with server.consume(grave, lease_ms=60_000) as graves:
        for attempt, fields in ((1, {}), (2, {"retryable": False})):
            line = graves.next()
            assert line["attempts"] == attempt
            assert server.settle("nack", grave, line, reason="not yet", **fields).status == 204
    with server.consume(grave, lease_ms=50) as graves:
        assert graves.next()["attempts"] == 3
    with server.consume(grave, lease_ms=60_000) as graves:
        line = graves.next()  # Leases ended, of the third at least.
        assert line["attempts"] >= 4
        assert line["last_error"] == "not yet"
        assert server.settle("ack", grave, line).status == 204
    assert len(dead_letters(server, topic)) == 1
    names = server.get("/v1/topics").json["topics"]
    assert not [name for name in names if name.startswith("dlq.dlq.")]


@pytest.mark.clause("D4")
def test_dead_letters_find_room_where_producers_do_not(small_server: Server) -> None:
    topic = small_server.new_topic()
    for _ in range(4):
        small_server.produce(topic, "0123456789", retry_policy={"max_attempts": 1})
        with small_server.consume(topic) as stream:
            assert small_server.settle("nack", topic, stream.next()).status == 204
    assert len(dead_letters(small_server, topic)) == 4


@pytest.fixture
def mortal(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log") as running:
        yield running


@pytest.mark.clause("D3", "D4", "W3")
def test_attempts_schedule_and_letters_survive_a_kill(mortal: Server) -> None:
    topic = mortal.new_topic()
    policy = {"max_attempts": 3, "backoff_ms": 1_500, "max_backoff_ms": 2_000}
    mortal.produce(topic, "slow", retry_policy=policy)
    mortal.produce(topic, "hopeless", retry_policy={"max_attempts": 1})
    with mortal.consume(topic, lease_ms=30_000) as stream:
        slow, hopeless = stream.take(2)
        assert mortal.settle("nack", topic, hopeless, reason="no").status == 204
        nacking = time.monotonic()
        assert mortal.settle("nack", topic, slow, reason="later").status == 204
    mortal.kill()
    mortal.start()
    with mortal.consume(topic, lease_ms=30_000) as stream:
        again = stream.next()
        waited = time.monotonic() - nacking
        assert (again["value"], again["attempts"], again["last_error"]) == ("slow", 2, "later")
        assert waited > 1.49
        assert stream.is_quiet(100)
    letters = dead_letters(mortal, topic)
    assert [letter["value"] for letter in letters] == ["hopeless"]
    assert group_of(mortal, topic)["lag"] == 1

"""Dead letters: where they lie, what they say, and how they leave."""

from typing import Any

import pytest

from tests.contract.serving import Server

ONCE = {"max_attempts": 1}


def give_up(server: Server, topic: str, *, group: str = "g", reason: str = "broken", **envelope: Any) -> None:
    """Produce a message that is tried once, and nack it in one group."""
    server.produce(topic, "v", key="k", retry_policy=ONCE, **envelope)
    with server.consume(topic, group=group, lease_ms=30_000) as stream:
        line = stream.next()
        assert server.settle("nack", topic, line, group=group, reason=reason).status == 204


def letters(server: Server, topic: str) -> list[dict[str, Any]]:
    return list(server.get(f"/v1/dlq/{topic}").json["messages"])


@pytest.mark.clause("D3", "D4", "E4")
def test_the_last_failure_moves_the_message_to_the_dead_letters(server: Server) -> None:
    topic = server.new_topic(partitions=3)
    give_up(server, topic, tenant_id="t", run_id="r", idempotency_key="dl-1")
    [letter] = letters(server, topic)
    facts = letter["envelope"].pop("dlq")
    assert letter["envelope"] == {
        "tenant_id": "t",
        "run_id": "r",
        "idempotency_key": "dl-1",
        "retry_policy": ONCE,
    }
    assert (letter["key"], letter["value"]) == ("k", "v")
    assert facts.pop("at").endswith("Z")
    assert facts == {
        "original_topic": topic,
        "original_partition": letter["partition"],
        "original_offset": 0,
        "group": "g",
        "attempts": 1,
        "last_error": "broken",
        "reason": "max_attempts",
    }
    shown = server.get(f"/v1/topics/dlq.{topic}").json
    assert len(shown["partitions"]) == 3
    group = server.get(f"/v1/topics/{topic}").json["groups"][letter["partition"]]
    assert (group["acked"], group["lag"], group["in_flight"]) == (0, 0, 0)
    with server.consume(topic, lease_ms=30_000) as stream:
        assert stream.is_quiet(300)
    with server.consume(f"dlq.{topic}", group="undertaker") as stream:
        assert stream.next()["envelope"]["dlq"]["original_topic"] == topic


@pytest.mark.clause("D6")
def test_a_redriven_letter_goes_only_to_the_group_that_gave_up_and_passes_the_gate(server: Server) -> None:
    topic = server.new_topic()
    with server.consume(topic, group="a", lease_ms=30_000) as others:
        give_up(server, topic, group="b", idempotency_key="once-only", deadline="2999-01-01T00:00:00Z")
        assert server.settle("ack", topic, others.next(), group="a").status == 204
        assert server.post(f"/v1/dlq/{topic}/redrive", {"dry_run": True}).json == {
            "matched": 1,
            "redriven": 0,
            "skipped": [],
        }
        asked = {"by": "ada", "rate_per_s": 100}
        assert server.post(f"/v1/dlq/{topic}/redrive", asked).json == {
            "matched": 1,
            "redriven": 1,
            "skipped": [],
        }
        with server.consume(topic, group="b", lease_ms=30_000) as stream:
            again = stream.next()
            assert (again["offset"], again["attempts"], again["last_error"]) == (1, 1, "")
            assert again["envelope"]["idempotency_key"] == "once-only"
            assert "dlq" not in again["envelope"]
            assert server.settle("ack", topic, again, group="b").status == 204
        assert others.is_quiet(300)
    [letter] = letters(server, topic)
    assert letter["redriven_at"].endswith("Z")
    assert server.post(f"/v1/dlq/{topic}/redrive", {}).json == {
        "matched": 0,
        "redriven": 0,
        "skipped": [],
    }
    lags = {one["group"]: one["lag"] for one in server.get(f"/v1/topics/{topic}").json["groups"]}
    assert lags["b"] == 0


@pytest.mark.clause("D6")
def test_all_groups_get_it_when_that_is_asked(server: Server) -> None:
    topic = server.new_topic()
    with server.consume(topic, group="a", lease_ms=30_000) as others:
        give_up(server, topic, group="b")
        others.next()
        assert server.post(f"/v1/dlq/{topic}/redrive", {"all_groups": True}).json["redriven"] == 1
        assert others.next()["offset"] == 1


@pytest.mark.clause("D6", "D7")
def test_letters_are_selected_purged_and_never_removed_by_an_ack(server: Server) -> None:
    topic = server.new_topic()
    for reason in ("disk full", "no route", "disk slow"):
        give_up(server, topic, reason=reason)
    with server.consume(f"dlq.{topic}", group="ops", lease_ms=30_000) as stream:
        for line in stream.take(3):
            assert server.settle("ack", f"dlq.{topic}", line, group="ops").status == 204
    assert len(letters(server, topic)) == 3
    chosen = {"filter": {"last_error": "disk"}}
    assert server.post(f"/v1/dlq/{topic}/redrive", chosen | {"dry_run": True}).json["matched"] == 2
    assert server.post(f"/v1/dlq/{topic}/redrive", chosen | {"offsets": [0]}).json["redriven"] == 1
    assert server.post(f"/v1/dlq/{topic}/purge", {"offsets": [1]}).json == {"matched": 1, "purged": 1}
    assert [one["offset"] for one in letters(server, topic)] == [0, 2]
    [found] = [one for one in server.get("/v1/dlq").json["dlqs"] if one["topic"] == topic]
    assert (found["dlq_topic"], found["messages"]) == (f"dlq.{topic}", 2)
    assert server.get(f"/v1/dlq/{topic}", limit=1, after=0).json["messages"][0]["offset"] == 2
    server.get("/v1/dlq/nowhere").refused(404, "NOT_FOUND")
    server.post(f"/v1/dlq/{topic}/redrive", {"offset": 1}).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("D5")
def test_what_cannot_be_retried_goes_at_once(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v")
    with server.consume(topic, lease_ms=30_000) as stream:
        line = stream.next()
        assert server.settle("nack", topic, line, reason="bad input", retryable=False).status == 204
    [letter] = letters(server, topic)
    assert letter["envelope"]["dlq"]["reason"] == "not_retryable"


@pytest.mark.clause("D7")
def test_a_nack_in_a_dead_letter_topic_only_delivers_again(server: Server) -> None:
    topic = server.new_topic()
    give_up(server, topic)
    with server.consume(f"dlq.{topic}", group="ops", lease_ms=30_000) as stream:
        line = stream.next()
        assert server.settle("nack", f"dlq.{topic}", line, group="ops", retryable=False).status == 204
        assert stream.next()["attempts"] == 2
    assert not [name for name in server.get("/v1/topics").json["topics"] if name.startswith("dlq.dlq")]

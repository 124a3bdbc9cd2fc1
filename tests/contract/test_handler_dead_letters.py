"""Dead letters of workers and projections over HTTP: stored once by id, listed like others, not redriven."""

from pathlib import Path
from typing import Any

import pytest

from tests.contract.serving import Server


def letter(number: int = 0, **fields: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "id": f"id-{number}",
        "kind": "worker",
        "handler": "billing",
        "partition": number % 3,
        "offset": number,
        "stage": "handle",
        "error": "ValueError: broken",
        "reason": "max_attempts",
        "attempts": 6,
        "at": "2026-01-02T03:04:05.678Z",
        "key": f"k{number}",
        "value": f'{{"n":{number}}}',
        "event_id": f"e{number}",
        "identity": "driftq:cluster/7",
    }
    return given | fields


def publish(server: Server, topic: str, *letters: dict[str, Any]) -> list[dict[str, Any]]:
    answer = server.post(f"/v1/dlq/{topic}/letters", {"letters": list(letters)})
    assert answer.status == 200, answer
    return list(answer.json["results"])


def listed(server: Server, topic: str) -> list[dict[str, Any]]:
    return list(server.get(f"/v1/dlq/{topic}").json["messages"])


@pytest.mark.clause("K5", "K10", "K5d", "E4")
def test_a_workers_dead_letter_is_a_message_of_the_dead_letter_topic(server: Server) -> None:
    topic = server.new_topic(partitions=3)
    assert publish(server, topic, letter(4)) == [{"status": "stored", "partition": 1, "offset": 0}]
    [found] = listed(server, topic)
    assert (found["partition"], found["offset"], found["key"], found["value"]) == (1, 0, "k4", '{"n":4}')
    facts = {
        "original_topic": topic,
        "original_partition": 1,
        "original_offset": 4,
        "group": "billing",
        "attempts": 6,
        "last_error": "ValueError: broken",
        "reason": "max_attempts",
        "at": "2026-01-02T03:04:05.678Z",
        "kind": "worker",
        "id": "id-4",
        "stage": "handle",
        "event_id": "e4",
        "identity": "driftq:cluster/7",
    }
    assert found["envelope"] == {"dlq": facts}
    assert "redriven_at" not in found
    assert len(server.get(f"/v1/topics/dlq.{topic}").json["partitions"]) == 3
    with server.consume(f"dlq.{topic}", group="ops", lease_ms=30_000) as stream:
        assert stream.next()["envelope"]["dlq"] == facts
    [dlq] = [one for one in server.get("/v1/dlq").json["dlqs"] if one["topic"] == topic]
    assert dlq["messages"] == 1
    [record] = server.get(f"/v1/topics/dlq.{topic}/records", partition=1).lines
    assert record["envelope"]["dlq"]["id"] == "id-4"


@pytest.mark.clause("K10")
def test_repeats_are_answered_with_the_first_place(server: Server) -> None:
    topic = server.new_topic(partitions=3)
    first = publish(server, topic, letter(0), letter(1), letter(0))
    assert [one["status"] for one in first] == ["stored", "stored", "duplicate"]
    assert first[2]["offset"] == first[0]["offset"]
    again = publish(server, topic, letter(1), letter(2), letter(0, error="told otherwise"))
    assert [one["status"] for one in again] == ["duplicate", "stored", "duplicate"]
    assert [one["offset"] for one in again] == [1, 2, 0]
    assert [one["envelope"]["dlq"]["id"] for one in listed(server, topic)] == ["id-0", "id-1", "id-2"]


@pytest.mark.clause("K10")
def test_an_event_that_is_redriven_and_dies_again_takes_the_place_of_its_first_death(server: Server) -> None:
    topic = server.new_topic()
    publish(server, topic, letter(0), letter(1))
    again = letter(0, redrives=1, error="still broken")
    [second, first, last] = publish(server, topic, again, letter(0), letter(0, redrives=2, error="last"))
    assert (last["status"], last["offset"]) == ("stored", 2)
    assert [one["status"] for one in (second, first)] == ["duplicate", "duplicate"]
    assert publish(server, topic, letter(0), again) == [
        {"status": "duplicate", "partition": 0, "offset": 2},
        {"status": "duplicate", "partition": 0, "offset": 2},
    ]
    found = [one["envelope"]["dlq"] for one in listed(server, topic)]
    assert [(one["id"], one["last_error"]) for one in found] == [
        ("id-1", "ValueError: broken"),
        ("id-0", "last"),
    ]
    [dlq] = [one for one in server.get("/v1/dlq").json["dlqs"] if one["topic"] == topic]
    assert dlq["messages"] == 2


@pytest.mark.clause("K10")
def test_ids_outlive_a_kill_and_are_forgotten_by_a_purge(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        topic = server.new_topic(partitions=3)
        publish(server, topic, *(letter(number) for number in range(5)))
        server.kill()
        server.start()
        assert {one["status"] for one in publish(server, topic, *map(letter, range(5)))} == {"duplicate"}
        assert server.post(f"/v1/dlq/{topic}/purge", {"filter": {"id": "id-3"}}).json["purged"] == 1
        statuses = [one["status"] for one in publish(server, topic, *map(letter, range(5)))]
        assert statuses == ["duplicate"] * 3 + ["stored", "duplicate"]
        server.kill()
        server.start()
        assert {one["status"] for one in publish(server, topic, *map(letter, range(5)))} == {"duplicate"}
        assert len(listed(server, topic)) == 5


@pytest.mark.clause("K10")
def test_a_bad_one_fails_alone_and_names_its_field(server: Server) -> None:
    topic = server.new_topic()
    bad = [
        letter(1, kind="group"),
        letter(2, at="yesterday"),
        letter(3, unknown=1),
        letter(4, reason="because"),
        letter(5, offset=-1),
        letter(6, handler="a\nb"),
        {"id": "x"},
    ]
    results = publish(server, topic, letter(0), *bad, letter(9))
    assert [one.get("status") for one in results] == ["stored", *[None] * len(bad), "stored"]
    assert {one["error"] for one in results[1:-1]} == {"INVALID_ARGUMENT"}
    told = [one["message"] for one in results[1:-1]]
    for field, text in zip(
        ("kind", "at", "unknown", "reason", "offset", "handler", "kind"), told, strict=True
    ):
        assert field in text
    server.post(f"/v1/dlq/{topic}/letters", {"letter": []}).refused(400, "INVALID_ARGUMENT")
    server.post(f"/v1/dlq/{topic}/letters").refused(400, "INVALID_ARGUMENT")
    server.post("/v1/dlq/dlq.x/letters", {"letters": [letter()]}).refused(400, "INVALID_ARGUMENT")
    assert server.post(f"/v1/dlq/{topic}/letters", {"letters": []}).json == {"results": []}


@pytest.mark.clause("K10", "D4")
def test_clients_still_cannot_produce_to_a_dead_letter_topic(server: Server) -> None:
    topic = server.new_topic()
    publish(server, topic, letter())
    server.post("/v1/produce", {"topic": f"dlq.{topic}", "value": "v"}).refused(400, "INVALID_ARGUMENT")
    facts = listed(server, topic)[0]["envelope"]["dlq"]
    forged = {"topic": topic, "value": "v", "envelope": {"dlq": facts}}
    server.post("/v1/produce", forged).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("K10")
def test_a_topic_that_is_gone_keeps_its_dead_letters(server: Server) -> None:
    topic = server.new_topic(partitions=3)
    assert server.delete(f"/v1/topics/{topic}").status in (200, 204)
    assert publish(server, topic, letter(4)) == [{"status": "stored", "partition": 0, "offset": 0}]
    assert len(server.get(f"/v1/topics/dlq.{topic}").json["partitions"]) == 1


@pytest.mark.clause("K10", "D6")
def test_a_redrive_over_http_skips_it_and_names_the_command(server: Server) -> None:
    topic = server.new_topic()
    server.produce(topic, "v", key="k", retry_policy={"max_attempts": 1})
    with server.consume(topic, group="billing", lease_ms=30_000) as stream:
        assert server.settle("nack", topic, stream.next(), group="billing").status == 204
    publish(server, topic, letter(1))
    for asked in ({"dry_run": True}, {}, {"all_groups": True}):
        answer = server.post(f"/v1/dlq/{topic}/redrive", asked).json
        skipped = {
            "offset": 1,
            "reason": "use_dlq_redrive",
            "group": "billing",
            "command": f"driftq dlq redrive {topic} --id id-1",
        }
        assert skipped in answer["skipped"]
    assert [one.get("redriven_at") is None for one in listed(server, topic)] == [False, True]
    assert server.get(f"/v1/topics/{topic}").json["partitions"][0]["messages"] == 2  # The group's own.


@pytest.mark.clause("K10", "D6")
def test_filters_tell_kinds_apart(server: Server) -> None:
    topic = server.new_topic()
    publish(
        server,
        topic,
        letter(0),
        letter(1, kind="projection", handler="latest", stage="decode"),
        letter(2, kind="projection", handler="latest", stage="write"),
    )

    def matched(**wanted: str) -> int:
        answer = server.post(f"/v1/dlq/{topic}/purge", {"filter": wanted, "dry_run": True})
        return int(answer.json["matched"])

    assert matched(kind="worker") == 1
    assert matched(kind="projection") == 2
    assert matched(kind="group") == 0
    assert matched(kind="projection", stage="write") == 1
    assert matched(event_id="e1") == 1
    assert matched(group="latest", id="id-2") == 1
    purge = server.post(f"/v1/dlq/{topic}/purge", {"filter": {"kind": "projection"}}).json
    assert purge == {"matched": 2, "purged": 2}
    assert [one["envelope"]["dlq"]["kind"] for one in listed(server, topic)] == ["worker"]


@pytest.mark.clause("K10", "D8")
def test_explain_shows_the_handler_that_gave_up(server: Server) -> None:
    topic = server.new_topic()
    placed = server.produce(topic, "v", key="k")
    publish(server, topic, letter(0, partition=0, offset=placed["offset"]))
    told = server.get(f"/v1/messages/{topic}/{placed['offset']}").json
    [dead] = [one for one in told["history"] if one["what"] == "dead"]
    assert (dead["group"], dead["dlq_offset"]) == ("worker:billing", 0)

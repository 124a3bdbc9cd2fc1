"""The event store over HTTP: append, conflict, duplicate, read, follow."""

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.contract.serving import Server

NUMBERS = count(1)


def event(aggregate_id: str = "", **fields: Any) -> dict[str, Any]:
    """A fact about an aggregate, under an id of its own."""
    body = {
        "event_id": f"e-{next(NUMBERS)}",
        "aggregate_type": "order",
        "aggregate_id": aggregate_id or f"o-{next(NUMBERS)}",
        "event_type": "order.changed",
        "kind": "fact",
        "operation": "append",
        "payload": {"total": 1},
    }
    return body | fields


def read(server: Server, aggregate_id: str, **query: Any) -> dict[str, Any]:
    answer = server.get("/v1/events", aggregate_type="order", aggregate_id=aggregate_id, **query)
    assert answer.status == 200, answer
    return dict(answer.json)


@pytest.mark.clause("S1")
def test_an_event_is_read_back_with_all_its_fields(server: Server) -> None:
    body = event(
        operation="create",
        metadata={"by": "me"},
        occurred_at="2026-01-02T03:04:05.678901Z",
        schema_version="2",
        payload={"text": "ä", "list": [1, 2.5, None]},
    )
    answer = server.post("/v1/events", body)
    assert (answer.status, answer.json) == (
        201,
        {"event_id": body["event_id"], "sequence_number": 1, "duplicate": False},
    )
    [stored] = read(server, body["aggregate_id"])["events"]
    stored.pop("position", None)
    assert stored == body | {"sequence_number": 1, "metadata": {"by": "me", "kind": "fact"}}


@pytest.mark.clause("S1")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "fact", "metadata": {"kind": "command"}}, "kind"),
        ({"kind": None}, "kind"),
        ({"operation": "upsert"}, "operation"),
        ({"surprise": 1}, "surprise"),
        ({"event_id": ""}, "event_id"),
        ({"occurred_at": "2026-01-02T03:04:05"}, "occurred_at"),
        ({"sequence_number": 7}, "sequence_number"),
    ],
)
def test_an_event_that_cannot_be_meant_is_refused(server: Server, fields: dict[str, Any], said: str) -> None:
    refused = server.post("/v1/events", event(**fields)).refused(400, "INVALID_ARGUMENT")
    assert said in refused["message"]


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"7", b'[{"event_id":"x"}]'])
def test_a_body_that_is_no_event_is_refused(server: Server, body: bytes) -> None:
    server.call("POST", "/v1/events", body).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("E3")
def test_unknown_names_are_refused(server: Server) -> None:
    server.post("/v1/events", event(), x=1).refused(400, "INVALID_ARGUMENT")
    server.get("/v1/events", aggregate_type="a", aggregate_id="b", x=1).refused(400, "INVALID_ARGUMENT")
    server.get("/v1/events/log", x=1).refused(400, "INVALID_ARGUMENT")
    server.get("/v1/events", aggregate_type="a").refused(400, "INVALID_ARGUMENT")
    server.get("/v1/events/log", limit=0).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("S2", "S6")
def test_concurrent_writers_get_consecutive_numbers(server: Server) -> None:
    aggregate = "contended"

    def write(_: int) -> int:
        writer = Server(None)
        writer.port = server.port
        answer = writer.post("/v1/events", event(aggregate))
        writer.hang_up()
        assert answer.status == 201
        return int(answer.json["sequence_number"])

    with ThreadPoolExecutor(16) as pool:
        numbers = list(pool.map(write, range(50)))
    assert sorted(numbers) == list(range(1, 51))


@pytest.mark.clause("S3")
@pytest.mark.parametrize("operation", ["update", "delete"])
def test_a_command_has_to_say_what_it_expects(server: Server, operation: str) -> None:
    refused = server.post("/v1/events", event(operation=operation)).refused(400, "INVALID_ARGUMENT")
    assert "expected_seq" in refused["message"]


@pytest.mark.clause("S3")
def test_a_wrong_expectation_is_a_conflict_and_changes_nothing(server: Server) -> None:
    first = event(operation="create")
    aggregate = first["aggregate_id"]
    assert server.post("/v1/events", first).status == 201
    late = server.post("/v1/events", event(aggregate, operation="update", expected_seq=0))
    refused = late.refused(409, "CONFLICT")
    assert (refused["aggregate_id"], refused["expected_seq"], refused["actual_seq"]) == (aggregate, 0, 1)
    server.post("/v1/events", event(aggregate, operation="create")).refused(409, "CONFLICT")
    server.post("/v1/events", event(aggregate, expected_seq=5)).refused(409, "CONFLICT")
    assert len(read(server, aggregate)["events"]) == 1
    honest = server.post("/v1/events", event(aggregate, operation="update", expected_seq=1))
    assert (honest.status, honest.json["sequence_number"]) == (201, 2)
    assert server.post("/v1/events", event(aggregate, operation="delete", expected_seq=2)).status == 201
    again = server.post("/v1/events", event(aggregate, operation="create", expected_seq=3))
    assert (again.status, again.json["sequence_number"]) == (201, 4)


@pytest.mark.clause("S4")
def test_the_same_event_again_is_a_duplicate(server: Server) -> None:
    body = event(operation="update", expected_seq=0)
    assert server.post("/v1/events", body).status == 201
    again = server.post("/v1/events", body)
    assert (again.status, again.json) == (
        200,
        {"event_id": body["event_id"], "sequence_number": 1, "duplicate": True},
    )
    assert len(read(server, body["aggregate_id"])["events"]) == 1


@pytest.mark.clause("S5")
def test_a_used_event_id_with_other_content_is_refused(server: Server) -> None:
    body = event()
    server.post("/v1/events", body)
    refused = server.post("/v1/events", body | {"payload": {"total": 2}}).refused(409, "CONFLICT")
    assert refused["reason"] == "event_id_reused"
    assert [one["payload"] for one in read(server, body["aggregate_id"])["events"]] == [{"total": 1}]


@pytest.mark.clause("S5", "W7")
def test_in_mode_warn_the_first_content_stays() -> None:
    with Server(None, events={"mismatch": "warn"}) as lenient:
        body = event()
        lenient.post("/v1/events", body)
        again = lenient.post("/v1/events", body | {"payload": {"total": 2}})
        assert (again.status, again.json["duplicate"], again.json["payload_mismatch"]) == (200, True, True)
        assert [one["payload"] for one in read(lenient, body["aggregate_id"])["events"]] == [{"total": 1}]


@pytest.mark.clause("S7")
def test_in_mode_off_the_caller_numbers() -> None:
    with Server(None, events={"allocator": "off"}) as server:
        refused = server.post("/v1/events", event("a")).refused(400, "INVALID_ARGUMENT")
        assert "sequence_number" in refused["message"]
        assert server.post("/v1/events", event("a", sequence_number=1)).json["sequence_number"] == 1
        server.post("/v1/events", event("a", sequence_number=1)).refused(409, "CONFLICT")


@pytest.mark.clause("S3")
def test_a_list_is_all_or_nothing_for_each_aggregate(server: Server) -> None:
    good = [event("list-a", operation="create"), event("list-a", operation="update", expected_seq=1)]
    bad = [event("list-b", operation="create"), event("list-b", operation="update", expected_seq=7)]
    answer = server.post("/v1/events", [good[0], bad[0], good[1], bad[1]])
    refused = answer.refused(409, "CONFLICT")
    assert (refused["appended"], refused["failed"]) == (2, 2)
    assert [result.get("sequence_number") for result in refused["results"]] == [1, None, 2, None]
    assert read(server, "list-b")["events"] == []
    assert server.post("/v1/events", good).status == 200
    fresh = server.post("/v1/events", [*good, event("list-a")])
    assert (fresh.status, fresh.json["appended"]) == (201, 3)


def test_pages_of_an_aggregate_follow_each_other(server: Server) -> None:
    server.post("/v1/events", [event("paged") for _ in range(5)])
    first = read(server, "paged", limit=2)
    assert [one["sequence_number"] for one in first["events"]] == [1, 2]
    assert first["next_seq"] == 3
    rest = read(server, "paged", from_seq=first["next_seq"])
    assert [one["sequence_number"] for one in rest["events"]] == [3, 4, 5]
    assert "next_seq" not in rest


@pytest.mark.clause("S8")
def test_the_log_has_every_acknowledged_event_in_order(server: Server) -> None:
    ids = [server.post("/v1/events", event("logged")).json["event_id"] for _ in range(3)]
    answer = server.get("/v1/events/log", limit=10_000)
    assert answer.headers["Content-Type"].startswith("application/x-ndjson")
    lines = answer.lines
    assert [line["position"] for line in lines] == list(range(1, len(lines) + 1))
    assert [line["event_id"] for line in lines][-3:] == ids
    last = server.get("/v1/events/log", **{"from": len(lines)}).lines
    assert [line["event_id"] for line in last] == ids[-1:]
    assert server.get("/v1/events/log", **{"from": len(lines) + 1}).content == b""
    assert server.get("/v1/events/log/end").json["position"] == len(lines)
    (stored,) = server.get("/v1/events/log", stored="true", **{"from": len(lines)}).lines
    assert stored["position"] == len(lines)
    assert json.loads(stored["payload"]) == last[0]["payload"]
    assert (json.loads(stored["metadata"])["kind"], stored["kind"]) == (last[0]["kind"], last[0]["kind"])
    assert len(stored["content_hash"]) == 64


@pytest.mark.clause("S9")
def test_aggregates_are_compared_byte_for_byte(server: Server) -> None:
    ids = ["a", "A", "a ", " a", "é", "e\u0301", "a:b", "a/b", "a%2Fb", "a\nb", ""]
    for each in ids:
        assert server.post("/v1/events", event() | {"aggregate_id": each}).json["sequence_number"] == 1
    assert [len(read(server, each)["events"]) for each in ids] == [1] * len(ids)


@pytest.mark.clause("S6")
def test_events_survive_a_killed_server(tmp_path: Path) -> None:
    server = Server(tmp_path / "log").start()
    body = event("kept")
    assert server.post("/v1/events", body).status == 201
    server.kill()
    with server:
        assert server.post("/v1/events", body).status == 200
        assert [line["event_id"] for line in server.get("/v1/events/log").lines] == [body["event_id"]]
    assert (tmp_path / "events.db").exists()


def test_a_server_that_was_never_asked_has_no_event_store(tmp_path: Path) -> None:
    with Server(tmp_path / "log") as server:
        assert server.get("/v1/healthz").status == 200
    assert not (tmp_path / "events.db").exists()


def test_the_openapi_document_has_the_event_store(server: Server) -> None:
    paths = server.get("/v1/openapi.json").json["paths"]
    assert set(paths["/v1/events"]) == {"get", "post"}
    body = paths["/v1/events"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"type": "array", "items": {"$ref": "#/components/schemas/EventBody"}} in body["anyOf"]
    assert "application/x-ndjson" in paths["/v1/events/log"]["get"]["responses"]["200"]["content"]

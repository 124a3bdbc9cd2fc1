"""The claims of handlers over HTTP: a list by state, and effects that an operator resolves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import driftq
from driftq.errors import ClaimNotFound, WrongClaimState
from driftq.registry import Effect, EventKey, Handler
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql.sqlite import SqliteDatabase
from tests.contract.keyed import KeyedServer
from tests.contract.serving import Server

CHARGE = Handler("charge", Effect.UNKNOWN, max_retries=0)
MAIL = Handler("mail", Effect.IDEMPOTENT, max_retries=0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Iterator[Server]:
    with Server(folder / "log") as running:
        yield running


def open_registry(folder: Path) -> SqlRegistry:
    """The registry as a worker on the same folder opens it."""
    return SqlRegistry(SqliteDatabase(str(folder / "pipeline" / "registry.db")), owner="worker-1")


def event(number: int) -> EventKey:
    return EventKey(f"e-{number}", "order", f"o-{number}", 1)


def listed(server: Server, **query: Any) -> list[tuple[str, str, str]]:
    answer = server.get("/v1/registry", **query)
    assert answer.status == 200, answer
    return [(claim["handler"], claim["event_id"], claim["state"]) for claim in answer.json["claims"]]


@pytest.mark.clause("K6")
def test_until_a_worker_has_made_a_registry_the_list_is_empty(served: Server, folder: Path) -> None:
    assert served.get("/v1/registry").json == {"claims": []}
    refused = served.post(
        "/v1/registry/resolve", {"handler": "charge", "event_id": "e-1", "as": "done"}
    ).refused(404, "NOT_FOUND")
    assert refused["kind"] == "ClaimNotFound"
    assert not (folder / "pipeline").exists()  # Looking makes nothing.
    registry = open_registry(folder)
    registry.mark_unknown(registry.claim(CHARGE, event(1)), error="cut off")
    assert listed(served) == [("charge", "e-1", "unknown")]
    registry.database.close()


@pytest.mark.clause("K6")
def test_an_unknown_effect_is_shown_with_its_facts_and_resolved(served: Server, folder: Path) -> None:
    registry = open_registry(folder)
    registry.mark_unknown(registry.claim(CHARGE, event(1)), error="cut off")
    registry.mark_unknown(registry.claim(CHARGE, event(2)), error="cut off")
    [claim, _] = served.get("/v1/registry", state="unknown").json["claims"]
    assert claim["claimed_at"].endswith("Z")
    assert claim["finished_at"].endswith("Z")
    del claim["claimed_at"], claim["finished_at"]
    assert claim == {
        "handler": "charge",
        "event_id": "e-1",
        "state": "unknown",
        "aggregate_type": "order",
        "aggregate_id": "o-1",
        "sequence_number": 1,
        "attempts": 1,
        "owner": "worker-1",
        "effect": "unknown",
        "last_error": "cut off",
        "reason": "reported",
        "requeues": 0,
    }
    with driftq.Client(f"http://127.0.0.1:{served.port}") as client:
        client.registry.resolve("charge", "e-1", outcome="done", by="ada")
        client.registry.resolve("charge", "e-2", outcome="retry")
        assert [claim.event_id for claim in client.registry.find(state="done")] == ["e-1"]
        assert client.registry.page(state="ready").claims[0].event_id == "e-2"
        with pytest.raises(WrongClaimState) as wrong:
            client.registry.resolve("charge", "e-1", outcome="done")
        assert (wrong.value.state, wrong.value.handler) == ("done", "charge")
        with pytest.raises(ClaimNotFound):
            client.registry.resolve("charge", "e-9", outcome="done")
    assert registry.find("charge", "e-1").reason == "resolved as done by ada"
    assert registry.claim(CHARGE, event(2)).attempt == 1  # A worker takes it up again.
    registry.database.close()


@pytest.mark.clause("X6")
def test_a_dead_claim_is_retried_and_is_not_done_by_decree(served: Server, folder: Path) -> None:
    registry = open_registry(folder)
    registry.mark_failed(registry.claim(MAIL, event(1)), error="no such address")
    dead = {"handler": "mail", "event_id": "e-1"}
    refused = served.post("/v1/registry/resolve", dead | {"as": "done"}).refused(409, "FAILED_PRECONDITION")
    assert (refused["reason"], refused["state"]) == ("wrong_state", "dead")
    assert served.post("/v1/registry/resolve", dead | {"as": "retry"}).status == 204
    assert listed(served, state="ready", handler="mail") == [("mail", "e-1", "ready")]
    registry.database.close()


@pytest.mark.clause("H2")
def test_claims_are_paged_and_bad_requests_say_what_is_wrong(served: Server, folder: Path) -> None:
    registry = open_registry(folder)
    for number in range(5):
        registry.mark_failed(registry.claim(MAIL, event(number)), error="no")
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 2}
    while True:
        page = served.get("/v1/registry", **query).json
        seen += [claim["event_id"] for claim in page["claims"]]
        if "next" not in page:
            break
        query["after"] = page["next"]
    assert seen == [f"e-{number}" for number in range(5)]
    for wrong in (
        {"status": "dead"},
        {"state": "lost"},
        {"limit": 0},
        {"limit": 1_001},
        {"after": "somewhere"},
    ):
        served.get("/v1/registry", **wrong).refused(400, "INVALID_ARGUMENT")
    for body in (None, {}, {"handler": "mail", "event_id": "e-1", "as": "gone"}, {"handler": "mail"}):
        served.post("/v1/registry/resolve", body).refused(400, "INVALID_ARGUMENT")
    body = {"handler": "mail", "event_id": "e-1", "as": "retry"}
    served.post("/v1/registry/resolve", body, dry_run=1).refused(400, "INVALID_ARGUMENT")
    registry.database.close()


@pytest.mark.clause("Y2", "Y8")
def test_a_worker_key_sees_claims_and_only_an_admin_resolves(tmp_path: Path) -> None:
    server = KeyedServer(tmp_path)
    worker = server.add_key("worker", "consume")
    body = {"handler": "charge", "event_id": "e-1", "as": "done"}
    with server:
        registry = open_registry(tmp_path)
        registry.mark_unknown(registry.claim(CHARGE, event(1)), error="cut off")
        assert server.ask("GET", "/v1/registry", key=worker).status == 200
        server.ask("POST", "/v1/registry/resolve", body, key=worker).refused(403, "PERMISSION_DENIED")
        assert registry.find("charge", "e-1").state == "unknown"
        assert server.ask("POST", "/v1/registry/resolve", body, key=server.admin).status == 204
        assert registry.find("charge", "e-1").reason == "resolved as done by admin"
        registry.database.close()

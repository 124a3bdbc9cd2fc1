"""Owners survive a kill and a snapshot; routers do not cross tenants; an evicted job stays its owner's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.keyed import TenantServer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.clause("Y3")

FORGETFUL = {"limits": {"retention_ms": 1, "idempotency_ttl_ms": 1}}


def seen(server: TenantServer, key: str) -> dict[str, Any]:
    """Everything that lists show to a key."""
    topics: list[str] = server.ask("GET", "/v1/topics", key=key).json["topics"]
    return {
        "topics": {name: server.ask("GET", f"/v1/topics/{name}", key=key).json["tenant"] for name in topics},
        "jobs": [one["job_id"] for one in server.ask("GET", "/v1/jobs", key=key).json["jobs"]],
        "events": [line["event_id"] for line in server.ask("GET", "/v1/events/log", key=key).lines],
    }


@pytest.mark.parametrize("segment_records", [100_000, 8], ids=["from the log", "from a snapshot"])
def test_owners_survive_kill_9(tmp_path: Path, segment_records: int) -> None:
    with TenantServer(tmp_path, broker={"segment_records": segment_records}) as server:
        owners_survive(server, snapshots=segment_records < 100)


def owners_survive(server: TenantServer, *, snapshots: bool) -> None:
    for tenant, key in (("acme", server.acme), ("globex", server.globex)):
        assert server.create(f"{tenant}.topic", key=key).status == 201
        assert server.enqueue(f"{tenant}.queue", key=key).status == 201
        assert server.append_event(f"{tenant}-type", f"{tenant}-1", key=key).status == 201
    assert server.create("given", key=server.admin).status == 201
    assert server.create("given", key=server.admin, tenant="acme").status == 201
    assert server.create("nobody", key=server.admin).status == 201
    for number in range(40):
        assert server.send("acme.topic", str(number), key=server.acme).status == 200
    if snapshots:
        assert server.ask("POST", "/v1/seal", key=server.admin).status == 200
        log = server.keys_file.parent / "log"
        wait_until("a snapshot is there", lambda: any(log.glob("MANIFEST*")))
    keys = (server.acme, server.globex, server.admin)
    before = [seen(server, key) for key in keys]
    assert before[0]["topics"] == {"acme.topic": "acme", "given": "acme"}
    for _ in range(2):
        server.kill()
        server.start()
        assert [seen(server, key) for key in keys] == before
        for key, other in ((server.acme, "globex"), (server.globex, "acme")):
            assert server.ask("GET", f"/v1/topics/{other}.topic", key=key).status == 404
            assert server.enqueue(f"{other}.queue", key=key).status == 404
            assert server.append_event(f"{other}-type", "stolen", key=key).status == 404
            assert server.send("nobody", "x", key=key).status == 404


def test_a_confirmed_owner_is_durable_with_the_first_use(tmp_path: Path) -> None:
    """Killed right after the reply: the name is still taken."""
    with TenantServer(tmp_path) as server:
        for number in range(3):
            assert server.enqueue(f"q-{number}", key=server.acme).status == 201
            server.kill()
            server.start()
            assert server.enqueue(f"q-{number}", key=server.globex).status == 404
            assert server.enqueue(f"q-{number}", key=server.acme).status == 201


def test_a_router_does_not_send_a_message_out_of_its_tenant(tmp_path: Path) -> None:
    with TenantServer(tmp_path, broker={"router": "tests.contract.routers:route"}) as server:
        for topic, key in (("in", server.acme), ("own", server.acme), ("foreign", server.globex)):
            assert server.create(topic, key=key).status == 201
        assert server.send("in", "to own", key=server.acme).json["topic"] == "own"
        assert server.send("in", "to foreign", key=server.acme).json["topic"] == "in"
        batch = {"messages": [{"topic": "in", "value": "to foreign"}, {"topic": "in", "value": "to own"}]}
        results = server.ask("POST", "/v1/produce/batch", batch, key=server.acme).json["results"]
        assert [result["topic"] for result in results] == ["in", "own"]
        assert server.records("foreign") == []
        assert {line["envelope"]["tenant_id"] for line in server.records("own")} == {"acme"}
        assert server.send("in", "to foreign", key=server.admin).json["topic"] == "foreign"


def test_a_job_from_the_history_is_shown_to_its_owner_alone(tmp_path: Path) -> None:
    with TenantServer(tmp_path, broker=FORGETFUL) as server:
        job = server.enqueue("mail", key=server.acme).json["job_id"]
        claim = {"queues": ["mail"], "owner": "w", "lease_ms": 60_000, "max": 1}
        (claimed,) = server.ask("POST", "/v1/jobs/claim", claim, key=server.acme).json["jobs"]
        done = {"token": claimed["token"], "result": "kept secret"}
        assert server.ask("POST", f"/v1/jobs/{job}/complete", done, key=server.acme).status == 204
        assert server.create("more", key=server.acme).status == 201
        for number in range(40):
            assert server.send("more", str(number), key=server.acme).status == 200  # Seals segments.

        def forgotten() -> bool:
            return not server.ask("GET", "/v1/jobs?queue=mail", key=server.acme).json["jobs"]

        wait_until("the job is evicted", forgotten)
        shown = server.ask("GET", f"/v1/jobs/{job}", key=server.acme)
        assert (shown.status, shown.json["result"]) == (200, "kept secret")
        foreign = server.ask("GET", f"/v1/jobs/{job}", key=server.globex)
        assert foreign.refused(404, "NOT_FOUND") == {
            "error": "NOT_FOUND",
            "message": f"there is no job '{job}'",
            "kind": "JobNotFound",
            "job": job,
        }
        assert b"secret" not in json.dumps(foreign.json).encode()

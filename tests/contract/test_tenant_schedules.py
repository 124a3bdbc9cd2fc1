"""A tenant's schedules, dead jobs and stored messages: its own, and nothing of others."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contract.keyed import TenantServer

NIGHTLY = {"cron": "30 2 * * *", "task": "build"}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TenantServer]:
    with TenantServer(tmp_path) as running:
        yield running


def schedule(server: TenantServer, name: str, queue: str, *, key: str) -> int:
    body = {"name": name, "queue": queue, **NIGHTLY}
    return server.ask("POST", "/v1/schedules", body, key=key).status


def listed(server: TenantServer, key: str) -> list[str]:
    return [one["name"] for one in server.ask("GET", "/v1/schedules", key=key).json["schedules"]]


@pytest.mark.clause("Y3")
def test_a_schedule_belongs_to_the_owner_of_its_queue(server: TenantServer) -> None:
    assert schedule(server, "nightly", "acme.reports", key=server.acme) == 201
    assert schedule(server, "hourly", "globex.reports", key=server.globex) == 201
    assert schedule(server, "ops", "ops.reports", key=server.admin) == 201
    assert listed(server, server.acme) == ["nightly"]
    assert listed(server, server.globex) == ["hourly"]
    assert listed(server, server.admin) == ["hourly", "nightly", "ops"]
    for verb in ("pause", "resume", "run"):
        path = f"/v1/schedules/nightly/{verb}"
        server.ask("POST", path, key=server.globex).refused(404, "NOT_FOUND")
        assert server.ask("POST", path, key=server.acme).status in (200, 201)
    for path, method in (("nightly", "GET"), ("nightly", "DELETE"), ("ops", "GET"), ("ops", "DELETE")):
        server.ask(method, f"/v1/schedules/{path}", key=server.globex).refused(404, "NOT_FOUND")
    assert server.ask("DELETE", "/v1/schedules/nightly", key=server.acme).status == 200


@pytest.mark.clause("Y3")
def test_a_tenant_takes_neither_a_queue_nor_a_schedule_of_another(server: TenantServer) -> None:
    assert schedule(server, "nightly", "acme.reports", key=server.acme) == 201
    assert schedule(server, "mine", "acme.reports", key=server.globex) == 404
    assert schedule(server, "nightly", "globex.reports", key=server.globex) == 404
    body = {"queue": "globex.reports", **NIGHTLY}
    server.ask("PUT", "/v1/schedules/nightly", body, key=server.globex).refused(404, "NOT_FOUND")
    assert server.ask("GET", "/v1/schedules/nightly", key=server.acme).json["queue"] == "acme.reports"


@pytest.mark.clause("Y3")
def test_a_tenant_requeues_its_own_dead_jobs(server: TenantServer) -> None:
    for queue, key in (("acme.mail", server.acme), ("globex.mail", server.globex)):
        dead_job(server, queue, key)
    other = {"queue": "globex.mail"}
    server.ask("POST", "/v1/jobs/requeue", other, key=server.acme).refused(404, "NOT_FOUND")
    assert server.ask("POST", "/v1/jobs/requeue", {}, key=server.acme).json == {"matched": 1, "requeued": 1}
    states = {
        job["queue"]: job["state"] for job in server.ask("GET", "/v1/jobs", key=server.admin).json["jobs"]
    }
    assert states == {"acme.mail": "ready", "globex.mail": "dead"}


def dead_job(server: TenantServer, queue: str, key: str) -> None:
    assert server.enqueue(queue, key=key).status == 201
    claim: dict[str, Any] = {"queues": [queue], "owner": "w", "lease_ms": 60_000, "max": 1}
    [job] = server.ask("POST", "/v1/jobs/claim", claim, key=key).json["jobs"]
    failure = {"token": job["token"], "error": "no", "retryable": False}
    assert server.ask("POST", f"/v1/jobs/{job['job_id']}/fail", failure, key=key).status == 204


@pytest.mark.clause("Y3")
def test_a_tenant_finds_messages_in_its_own_topics(server: TenantServer) -> None:
    assert server.create("acme.orders", key=server.acme).status == 201
    assert server.send("acme.orders", "v", key=server.acme, run_id="run-1").status == 200
    found = server.ask("GET", "/v1/topics/acme.orders/messages", key=server.acme, run_id="run-1")
    assert [one["value"] for one in found.json["messages"]] == ["v"]
    server.ask("GET", "/v1/topics/acme.orders/messages", key=server.globex, run_id="run-1").refused(
        404, "NOT_FOUND"
    )

"""The log of a server: its level and form by flag and environment, and never what a client sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.contract.keyed import KeyedServer
from tests.harness import ServerProcess
from tests.support.waiting import wait_until

MARK = "card-4111-1111-marker"


def lines(server: ServerProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in server.errors.splitlines()]


@pytest.fixture
def router(tmp_path: Path) -> Path:
    """A module with a router that quotes the message in its error."""
    file = tmp_path / "quoting_router.py"
    file.write_text("def route(topic, message):\n    raise ValueError(f'cannot route {message.value}')\n")
    return tmp_path


@pytest.mark.clause("O2")
def test_no_payload_is_logged_on_any_path_that_logs(tmp_path: Path, router: Path) -> None:
    """A router that quotes its message, a reused key, bad JSON, unknown names, a failed job."""
    options = ("--router", "quoting_router:route", "--log-format", "json", "--log-level", "debug")
    env = {"PYTHONPATH": str(router)}
    with ServerProcess(tmp_path / "data", *options, env=env) as server:
        client = server.client()
        client.post("/v1/topics", {"name": "orders"})
        envelope = {"idempotency_key": f"key-{MARK}"}
        for value in (MARK, MARK + "-other"):
            client.post("/v1/produce", {"topic": "orders", "value": value, "key": MARK, "envelope": envelope})
        client.post("/v1/produce", {"topic": MARK, "value": MARK})
        client.post("/v1/produce", {"topic": "orders", "value": {"not": MARK}})
        client.post(f"/v1/{MARK}", {"value": MARK})
        client.get("/v1/produce", topic="orders", value=MARK)
        client.post("/v1/jobs", {"queue": "q", "task": "t", "payload": MARK, "priority": 99})
        client.post("/v1/jobs", {"queue": "q", "task": "t", "payload": {"card": MARK}})
        claim = {"queues": ["q"], "owner": "o", "lease_ms": 60_000, "max": 1}
        (job,) = client.post("/v1/jobs/claim", claim).body["jobs"]
        fail = {"token": job["token"], "error": MARK, "retryable": False}
        client.post(f"/v1/jobs/{job['job_id']}/fail", fail)
        client.post("/v1/events", {"event_id": "e", "payload": MARK})
        wait_until("the router has failed", lambda: "router failed" in server.errors)
        wait_until("the reuse is logged", lambda: "another payload" in server.errors)
        assert server.terminate() == 0
        assert MARK not in server.errors + server.output
        logged = lines(server)
    failed = next(line for line in logged if "router failed" in line["message"])
    assert "ValueError at " in failed["message"]
    reused = next(line for line in logged if "another payload" in line["message"])
    assert (reused["topic"], reused["partition"], reused["offset"]) == ("orders", 0, 0)
    assert {line["level"] for line in logged} <= {"debug", "info", "warning", "error"}
    assert all({"ts", "level", "logger", "message"} <= line.keys() for line in logged)


@pytest.mark.clause("O2")
@pytest.mark.parametrize("how", ["flag", "environment"])
def test_the_level_and_the_form_come_from_flag_or_environment(tmp_path: Path, how: str) -> None:
    flags = ("--log-level", "error", "--log-format", "json") if how == "flag" else ()
    env = {} if how == "flag" else {"DRIFTQ_LOG_LEVEL": "error", "DRIFTQ_LOG_FORMAT": "json"}
    with ServerProcess(tmp_path / "data", *flags, env=env) as server:
        client = server.client()
        client.post("/v1/topics", {"name": "orders"})
        for value in ("one", "two"):  # A warning, which is below the level.
            client.post(
                "/v1/produce", {"topic": "orders", "value": value, "envelope": {"idempotency_key": "k"}}
            )
        assert server.terminate() == 0
        assert server.errors == ""


@pytest.mark.clause("O2", "Y4")
def test_no_key_is_logged_at_any_level(tmp_path: Path) -> None:
    with KeyedServer(tmp_path) as keyed:
        for key in (keyed.admin, keyed.admin[:-4] + "zzzz", "dq_nobody_" + MARK):
            keyed.ask("GET", "/v1/whoami", key=key)
        logged = keyed.logged
    assert keyed.admin.rpartition("_")[2] not in logged
    assert MARK not in logged

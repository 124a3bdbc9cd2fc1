"""X8 for a server: its PostgreSQL is not there, goes away, and comes back."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.harness import ServerProcess
from tests.services_postgres import PostgresServer, private_postgres

__all__ = ["private_postgres"]


def event(number: int) -> dict[str, Any]:
    return {
        "event_id": f"e-{number}",
        "aggregate_type": "order",
        "aggregate_id": "o",
        "event_type": "changed",
        "kind": "fact",
        "operation": "append",
        "payload": number,
    }


def driftq(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "driftq", *arguments], capture_output=True, text=True, check=False, timeout=60
    )


@pytest.mark.clause("X8", "K7", "S6")
def test_an_outage_is_told_costs_nothing_and_is_over_with_the_database(
    private_postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRIFTQ_DATABASE_URL", private_postgres.url)
    data = tmp_path / "data"
    outdated = driftq("serve", "--port", "0", "--data", str(data))
    assert outdated.returncode == 1
    assert "driftq db upgrade" in outdated.stderr
    assert driftq("db", "upgrade").returncode == 0
    with ServerProcess(data, env={"DRIFTQ_DATABASE_URL": private_postgres.url}) as server:
        client = server.client()
        assert client.post("/v1/events", event(1)).status == 201
        private_postgres.stop()
        away = client.post("/v1/events", event(2))
        assert (away.status, away.body["error"]) == (503, "UNAVAILABLE")
        assert client.get("/v1/events/log").status == 503
        assert client.post("/v1/topics", {"name": "orders"}).status == 201
        private_postgres.start()
        again = client.post("/v1/events", event(2))
        assert (again.status, again.body["sequence_number"]) == (201, 2)
        stored = client.get("/v1/events", aggregate_type="order", aggregate_id="o").body["events"]
        assert [one["payload"] for one in stored] == [1, 2]
    private_postgres.stop()
    refused = driftq("serve", "--port", "0", "--data", str(data))
    assert refused.returncode == 1
    assert "is not available" in refused.stderr
    private_postgres.start()

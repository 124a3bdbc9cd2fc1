"""A key over its rates is refused and slows no other; admin actions are logged with their outcome."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftq.access.audit import FILES_KEPT, AuditLog
from tests.contract.keyed import KeyedServer
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeyedServer]:
    folder = tmp_path_factory.mktemp("audited")
    server = KeyedServer(folder, audit_file=str(folder / "audit.log"))
    server.calm = server.add_key("calm", "produce", "read")  # type: ignore[attr-defined]
    server.few = server.add_key("few", "read", requests_per_s=2)  # type: ignore[attr-defined]
    server.small = server.add_key("small", "produce", bytes_per_s=1000)  # type: ignore[attr-defined]
    with server as running:
        assert running.ask("POST", "/v1/topics", {"name": "orders"}, key=running.admin).status == 201
        yield running


def actions(server: KeyedServer) -> list[dict[str, Any]]:
    lines = (server.keys_file.parent / "audit.log").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.clause("Y7", "H2")
def test_a_key_over_its_requests_waits_and_others_do_not(audited: KeyedServer) -> None:
    """The flood goes on until the calm key has been served many times."""
    few: str = audited.few  # type: ignore[attr-defined]
    calm: str = audited.calm  # type: ignore[attr-defined]
    over = threading.Event()
    refused: list[Any] = []

    def flood() -> None:
        while not over.is_set():
            answer = audited.ask("GET", "/v1/topics", key=few)
            if answer.status != 200:
                refused.append(answer)

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        wait_until("the flood is refused", lambda: len(refused) > 5)
        body = {"topic": "orders", "value": "x"}
        for _ in range(50):
            assert audited.ask("POST", "/v1/produce", body, key=calm).status == 200
    finally:
        over.set()
        flooding.join()
    error = refused[0].refused(429, "RESOURCE_EXHAUSTED")
    assert (error["reason"], error["key"], error["limit"], error["per_s"]) == (
        "key_rate",
        "few",
        "requests",
        2,
    )
    assert int(refused[0].headers["Retry-After"]) >= 1


@pytest.mark.clause("Y7")
def test_a_key_over_its_bytes_waits_and_nothing_is_stored(audited: KeyedServer) -> None:
    small: str = audited.small  # type: ignore[attr-defined]
    body = {"topic": "orders", "value": "y" * 5000}
    assert audited.ask("POST", "/v1/produce", body, key=small).status == 200
    error = audited.ask("POST", "/v1/produce", body, key=small).refused(429, "RESOURCE_EXHAUSTED")
    assert (error["limit"], error["retry_after_ms"] > 1000) == ("bytes", True)
    values = [
        line["value"] for line in audited.ask("GET", "/v1/topics/orders/records", key=audited.admin).lines
    ]
    assert values.count("y" * 5000) == 1


@pytest.mark.clause("Y8")
def test_admin_actions_are_logged_with_key_time_target_and_outcome(audited: KeyedServer) -> None:
    calm: str = audited.calm  # type: ignore[attr-defined]
    audited.ask("POST", "/v1/topics", {"name": "short-lived"}, key=audited.admin)
    audited.ask("POST", "/v1/topics", {"name": "short-lived", "partitions": 7}, key=audited.admin)
    audited.ask("POST", "/v1/topics/short-lived/groups/g/reset", {"to": "latest"}, key=calm)
    audited.ask("POST", "/v1/topics/short-lived/groups/g/reset", {"nonsense": 1}, key=audited.admin)
    audited.ask("POST", "/v1/produce", {"topic": "short-lived", "value": "a payload"}, key=calm)
    audited.ask("DELETE", "/v1/topics/short-lived", key=audited.admin)
    audited.ask("POST", "/v1/jobs/job-9/cancel", key=audited.admin)
    last = actions(audited)[-6:]
    assert [(one["key"], one["action"], one["status"], one["outcome"]) for one in last] == [
        ("admin", "POST /v1/topics", 201, "done"),
        ("admin", "POST /v1/topics", 409, "refused"),
        ("calm", "POST /v1/topics/{topic}/groups/{group}/reset", 403, "refused"),
        ("admin", "POST /v1/topics/{topic}/groups/{group}/reset", 400, "refused"),
        ("admin", "DELETE /v1/topics/{topic}", 200, "done"),
        ("admin", "POST /v1/jobs/{job_id}/cancel", 404, "refused"),
    ]
    assert last[0]["target"] == {"topic": "short-lived"}
    assert last[2]["target"] == {"topic": "short-lived", "group": "g"}
    assert last[5]["target"] == {"job_id": "job-9"}
    assert all(one["at"].endswith("Z") and one["address"] == "127.0.0.1" and one["key_id"] for one in last)
    content = (audited.keys_file.parent / "audit.log").read_text()
    assert "a payload" not in content
    assert audited.admin.rpartition("_")[2] not in content


@pytest.mark.clause("Y8")
def test_a_change_of_the_keys_is_logged(audited: KeyedServer) -> None:
    audited.add_key("newcomer", "read")
    audited.revoke("newcomer")
    audited.add_key("stays", "read")
    wait_until("the change is logged", lambda: "keys changed" in str(actions(audited)[-1]))
    assert "stays" in actions(audited)[-1]["target"]["added"]


@pytest.mark.clause("Y8")
def test_the_audit_log_is_rotated_by_size(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.log", bytes_max=200)
    for number in range(60):
        log.write({"number": number, "padding": "x" * 30})
    log.close()
    names = {"audit.log", *(f"audit.log.{number}" for number in range(1, FILES_KEPT + 1))}
    assert {file.name for file in tmp_path.iterdir()} == names
    assert all(file.stat().st_size <= 200 for file in tmp_path.iterdir())
    newest = [json.loads(line)["number"] for line in (tmp_path / "audit.log").read_text().splitlines()]
    before = [json.loads(line)["number"] for line in (tmp_path / "audit.log.1").read_text().splitlines()]
    assert (newest[-1], before[-1] + 1) == (59, newest[0])
    assert (tmp_path / "audit.log").stat().st_mode & 0o777 == 0o600

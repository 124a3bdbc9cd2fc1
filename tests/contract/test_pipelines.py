"""What drivers report of their jobs: the newest report of each, also after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import driftq
from driftq.model.wire.pipelines import PipelineReport
from tests.contract.keyed import KeyedServer
from tests.contract.serving import Server
from tests.support.waiting import wait_until

REPORT = {
    "kind": "projection",
    "state": "running",
    "last_batch": 7,
    "batch_rows": 100,
    "batch_ms": 250,
    "rows": 800,
    "rows_per_second": 400.5,
    "lag": 3,
    "checkpoint": "/data/pipeline/checkpoints/projection-latest",
    "sinks": ["postgresql://db/app"],
    "started_at": "2026-01-31T12:00:00.000000Z",
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "log") as running:
        yield running


def report(server: Server, name: str, **changes: Any) -> None:
    assert server.post(f"/v1/pipelines/{name}/progress", REPORT | changes).status == 204


def shown(server: Server) -> dict[str, dict[str, Any]]:
    return {job["name"]: job for job in server.get("/v1/pipelines").json["pipelines"]}


def test_the_newest_report_of_each_job_is_shown(served: Server) -> None:
    assert served.get("/v1/pipelines").json == {"pipelines": []}
    report(served, "projection-latest", last_batch=6)
    report(served, "projection-latest")
    report(served, "publisher", kind="publisher", state="target_away", error="the database is away")
    jobs = shown(served)
    assert list(jobs) == ["projection-latest", "publisher"]
    job = jobs["projection-latest"]
    assert job.pop("reported_at").endswith("Z")
    assert job == REPORT | {"name": "projection-latest"}
    assert (jobs["publisher"]["state"], jobs["publisher"]["error"]) == ("target_away", "the database is away")


def test_reports_survive_a_restart_and_a_kill(served: Server, tmp_path: Path) -> None:
    report(served, "projection-latest")
    code, _ = served.terminate()
    assert code == 0
    served.start()
    assert shown(served)["projection-latest"]["last_batch"] == 7
    report(served, "projection-latest", last_batch=8)
    file = tmp_path / "pipelines.json"
    wait_until(
        "the report is in the file",
        lambda: json.loads(file.read_bytes())["projection-latest"]["report"]["last_batch"] == 8,
    )
    served.kill()
    served.start()
    assert shown(served)["projection-latest"]["last_batch"] == 8


def test_a_job_that_stopped_reporting_is_silent_and_an_ended_one_is_not(
    served: Server, tmp_path: Path
) -> None:
    report(served, "worker-mail", kind="worker")
    report(served, "rebuild-latest", kind="rebuild", state="ended")
    served.terminate()
    file = tmp_path / "pipelines.json"
    kept = json.loads(file.read_bytes())
    for job in kept.values():
        job["at"] -= 31_000
    file.write_text(json.dumps(kept))
    served.start()
    jobs = shown(served)
    assert (jobs["worker-mail"]["state"], jobs["worker-mail"]["reported_state"]) == ("silent", "running")
    assert jobs["rebuild-latest"]["state"] == "ended"
    report(served, "worker-mail", kind="worker")
    assert shown(served)["worker-mail"]["state"] == "running"


def test_a_file_that_is_not_ours_is_no_obstacle(served: Server, tmp_path: Path) -> None:
    served.terminate()
    (tmp_path / "pipelines.json").write_text("{")
    served.start()
    assert shown(served) == {}
    report(served, "publisher")


@pytest.mark.clause("H2")
def test_lists_are_paged_and_unknown_fields_are_refused(served: Server) -> None:
    for name in ("a", "b", "c"):
        report(served, name)
    first = served.get("/v1/pipelines", limit=2).json
    assert ([job["name"] for job in first["pipelines"]], first["next"]) == (["a", "b"], "b")
    assert [job["name"] for job in served.get("/v1/pipelines", after="b").json["pipelines"]] == ["c"]
    served.get("/v1/pipelines", state="running").refused(400, "INVALID_ARGUMENT")
    for body in (None, {}, REPORT | {"state": "silent"}, REPORT | {"speed": 1}, REPORT | {"lag": -1}):
        served.post("/v1/pipelines/a/progress", body).refused(400, "INVALID_ARGUMENT")
    served.post("/v1/pipelines/a%0Ab/progress", REPORT).refused(400, "INVALID_ARGUMENT")
    served.post(f"/v1/pipelines/{'x' * 300}/progress", REPORT).refused(400, "INVALID_ARGUMENT")


def test_the_number_of_jobs_is_bounded(served: Server) -> None:
    for number in range(514):
        report(served, f"job-{number:04}")
    with driftq.Client(f"http://127.0.0.1:{served.port}") as client:
        client.pipelines.report("mine", PipelineReport(kind="mine", state="running"))
        names = [job.name for job in client.pipelines.list()]
    assert len(names) == 512
    assert names[0] == "job-0003"
    assert names[-1] == "mine"


@pytest.mark.clause("Y2")
def test_a_worker_key_reports_and_a_read_key_only_looks(tmp_path: Path) -> None:
    server = KeyedServer(tmp_path)
    keys = {role: server.add_key(role, role) for role in ("read", "produce", "consume")}
    with server:
        path = "/v1/pipelines/publisher/progress"
        for role, status in (("read", 403), ("produce", 204), ("consume", 204)):
            assert server.ask("POST", path, REPORT, key=keys[role]).status == status
        assert len(server.ask("GET", "/v1/pipelines", key=keys["read"]).json["pipelines"]) == 1
        server.ask("GET", "/v1/pipelines", key=keys["produce"]).refused(403, "PERMISSION_DENIED")

"""`driftq job`, against a real server."""

import json
from uuid import uuid4

import pytest

from tests.harness import ServerProcess
from tests.unit.cli.conftest import Run


@pytest.fixture
def queue() -> str:
    return f"mail-{uuid4().hex[:8]}"


def enqueue(run_client: Run, queue: str, *options: str) -> str:
    said = run_client("job", "enqueue", queue, "send", '{"to": "é"}', *options, "--json")
    assert said.exit_code == 0, said.output
    return str(json.loads(said.stdout)["job_id"])


def claim(server: ServerProcess, queue: str) -> dict[str, object]:
    body = {"queues": [queue], "owner": "w", "lease_ms": 30_000, "max": 1}
    return dict(server.client().post("/v1/jobs/claim", body).body["jobs"][0])


@pytest.mark.clause("J11")
def test_a_job_is_enqueued_once_under_its_key(run_client: Run, queue: str) -> None:
    first = run_client("job", "enqueue", queue, "send", "[1]", "--idempotency-key", "k", "--priority", "7")
    assert (first.exit_code, first.stdout.split(" ", 1)[1]) == (0, "is ready\n")
    again = run_client("job", "enqueue", queue, "send", "[2]", "--idempotency-key", "k")
    assert again.stdout.endswith("a duplicate, nothing was added; the payload differs from the stored one\n")
    later = run_client("job", "enqueue", queue, "send", "--delay", "60")
    assert later.stdout.endswith("is scheduled\n")


def test_jobs_are_listed_and_shown(run_client: Run, real_server: ServerProcess, queue: str) -> None:
    jobs = [enqueue(run_client, queue, "--max-retries", "0") for _ in range(3)]
    held = claim(real_server, queue)
    failed = {"token": held["token"], "error": "no route"}
    real_server.client().post(f"/v1/jobs/{jobs[0]}/fail", failed)
    listed = json.loads(run_client("job", "list", "--queue", queue, "--json").stdout)["jobs"]
    assert [job["job_id"] for job in listed] == jobs
    dead = run_client("job", "list", "--queue", queue, "--state", "dead").stdout
    assert jobs[0] in dead
    assert "no route" in dead
    assert jobs[1] not in dead
    part = run_client("job", "list", "--queue", queue, "--limit", "2")
    assert part.stdout.endswith(f"there are more: --after {jobs[1]}\n")
    shown = run_client("job", "show", jobs[0]).stdout
    assert f"{jobs[0]} is dead: send in queue {queue}" in shown
    assert 'payload {"to": "é"}' in shown
    assert "1 of 1 attempts" in shown
    assert json.loads(run_client("job", "show", jobs[1], "--json").stdout)["state"] == "ready"


@pytest.mark.clause("J10")
def test_jobs_are_cancelled_and_requeued(run_client: Run, queue: str) -> None:
    job = enqueue(run_client, queue)
    assert run_client("job", "cancel", job).stdout == f"{job} is dead\n"
    refused = run_client("job", "cancel", job)
    assert (refused.exit_code, refused.stderr) == (
        1,
        f"error: cannot cancel {job}: it is dead (FAILED_PRECONDITION)\n",
    )
    assert json.loads(run_client("job", "requeue", job, "--json").stdout) == {"job_id": job, "state": "ready"}


def test_what_cannot_be_meant_is_refused(run_client: Run, queue: str) -> None:
    assert run_client("job", "enqueue", queue, "send", "{nonsense").exit_code == 2
    both = run_client("job", "enqueue", queue, "send", "--delay", "1", "--run-at", "2100-01-01T00:00:00Z")
    assert both.exit_code == 2
    missing = run_client("job", "show", "../../x")
    assert (missing.exit_code, "there is no job" in missing.stderr) == (1, True)


@pytest.mark.clause("J9")
def test_dead_jobs_are_requeued_by_a_selection(run_client: Run, queue: str) -> None:
    jobs = [enqueue(run_client, queue) for _ in range(3)]
    for job in jobs:
        run_client("job", "cancel", job)
    counted = run_client("job", "requeue", "--queue", queue, "--error", "cancelled", "--dry-run")
    assert (counted.exit_code, counted.stdout) == (0, "3 dead jobs match\n")
    none = run_client("job", "requeue", "--queue", queue, "--task", "fetch", "--json")
    assert json.loads(none.stdout) == {"matched": 0, "requeued": 0}
    done = run_client("job", "requeue", "--queue", queue, "--since", "2020-01-01T00:00:00Z", "--rate", "100")
    assert done.stdout == "3 of 3 dead jobs are ready again\n"
    for wrong in ([], ["--dry-run"], [jobs[0], "--queue", queue]):
        assert run_client("job", "requeue", *wrong).exit_code == 2

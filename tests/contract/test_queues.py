"""Queues over HTTP: counted, limited, paused; and jobs that wait for others."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.contract.job_queue import Queue
from tests.contract.serving import Server


@pytest.fixture
def queue(server: Server) -> Queue:
    return Queue(server)


def shown(server: Server, queue: Queue) -> dict[str, Any]:
    found = server.get("/v1/queues", after=queue.name[:-1]).json["queues"]
    return next(one for one in found if one["queue"] == queue.name)


@pytest.mark.clause("J18", "J20")
def test_a_queue_is_listed_with_its_jobs_limits_and_pause(server: Server, queue: Queue) -> None:
    parent = queue.enqueue()
    queue.enqueue()
    queue.ask("later", run_at="2099-01-01T00:00:00Z")
    queue.ask("child", after=[parent])
    (job,) = queue.claim()
    queue.do("fail", job, error="x", retryable=False)
    queue.claim()
    limits = {"concurrency": 3, "rate": {"count": 9, "per_ms": 500}, "per_key": {"concurrency": 1}}
    limited = server.put(f"/v1/queues/{queue.name}/limits", limits)
    assert limited.json == {"queue": queue.name, "paused": False, "limits": limits}
    assert server.post(f"/v1/queues/{queue.name}/pause", None).json["paused"] is True
    assert shown(server, queue) == {
        "queue": queue.name,
        "ready": 0,
        "scheduled": 1,
        "blocked": 0,
        "in_flight": 1,
        "dead": 2,
        "oldest_age_ms": None,
        "paused": True,
        "limits": limits,
    }
    assert server.put(f"/v1/queues/{queue.name}/limits", {}).json["limits"] == {}


@pytest.mark.clause("J18")
@pytest.mark.parametrize(
    "body",
    [
        {"concurrency": 0},
        {"rate": {"count": 1}},
        {"rate": {"count": 0, "per_ms": 1}},
        {"per_key": {"per_key": {}}},
        {"speed": 1},
    ],
)
def test_what_is_no_limit_is_refused(server: Server, queue: Queue, body: dict[str, Any]) -> None:
    server.put(f"/v1/queues/{queue.name}/limits", body).refused(400, "INVALID_ARGUMENT")


@pytest.mark.clause("J18")
def test_a_waiting_claim_gets_work_when_a_slot_is_free(server: Server, queue: Queue) -> None:
    server.put(f"/v1/queues/{queue.name}/limits", {"per_key": {"concurrency": 1}})
    for customer in ("ada", "ada", "bob"):
        queue.ask(customer, limit_key=customer)
    first = queue.claim(max=9)
    assert [job["payload"] for job in first] == ["ada", "bob"]
    assert queue.claim(max=9) == []
    server.post(f"/v1/jobs/{first[0]['job_id']}/complete", {"token": first[0]["token"]})
    (last,) = queue.claim(max=9, wait_ms=10_000)
    assert (last["payload"], queue.show(last["job_id"])["limit_key"]) == ("ada", "ada")


@pytest.mark.clause("J18")
def test_a_rate_lets_a_waiting_claim_wait_until_its_window_is_over(server: Server, queue: Queue) -> None:
    server.put(f"/v1/queues/{queue.name}/limits", {"rate": {"count": 2, "per_ms": 700}})
    for number in range(3):
        queue.enqueue(number)
    began = time.monotonic()
    assert len(queue.claim(max=9)) == 2
    assert len(queue.claim(max=9, wait_ms=10_000)) == 1
    assert 0.65 < time.monotonic() - began < 5


@pytest.mark.clause("J20")
def test_a_resumed_queue_answers_a_claim_that_waits(server: Server, queue: Queue) -> None:
    server.post(f"/v1/queues/{queue.name}/pause", None)
    queue.enqueue("kept")
    assert queue.claim(wait_ms=100) == []
    server.post(f"/v1/queues/{queue.name}/resume", None)
    assert [job["payload"] for job in queue.claim(wait_ms=10_000)] == ["kept"]


@pytest.mark.clause("J19")
def test_a_job_runs_after_those_it_waits_for(server: Server, queue: Queue) -> None:
    parent = queue.enqueue("parent")
    child = queue.ask("child", after=[parent, parent]).json
    assert child["state"] == "blocked"
    listed = server.get("/v1/jobs", queue=queue.name, state="blocked").json["jobs"]
    assert [(job["job_id"], job["after"], job["waits_for"]) for job in listed] == [
        (child["job_id"], [parent], [parent])
    ]
    (job,) = queue.claim(max=9)
    queue.do("complete", job)
    (job,) = queue.claim(max=9, wait_ms=5_000)
    assert job["payload"] == "child"
    view = queue.show(child["job_id"])
    assert (view["after"], "waits_for" in view) == ([parent], False)


@pytest.mark.clause("J19")
def test_a_dead_parent_is_named_and_an_unknown_one_is_not_found(server: Server, queue: Queue) -> None:
    parent = queue.enqueue("parent")
    child = queue.ask("child", after=[parent]).json["job_id"]
    server.post(f"/v1/jobs/{parent}/cancel", None)
    assert queue.show(child)["last_error"] == f"{parent} is dead"
    server.post(f"/v1/jobs/{parent}/requeue", None)
    assert queue.show(child)["state"] == "dead"
    assert queue.ask("late", after=[child]).json["state"] == "dead"
    for unknown in ("job-999999999", "nonsense"):
        queue.ask("orphan", after=[unknown]).refused(404, "NOT_FOUND")

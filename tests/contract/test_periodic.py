"""`@jobs.periodic`, limit keys and `after` from Python, and the commands for schedules and queues."""

from __future__ import annotations

import json
import threading
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

import driftq
from driftq.cli.app import app
from driftq.errors import InvalidArgument, ScheduleNotFound
from tests.contract.serving import Server


@pytest.fixture
def client(server: Server) -> Any:
    with driftq.Client(f"http://127.0.0.1:{server.port}") as opened:
        yield opened


def run(server: Server, *arguments: str) -> Any:
    ran = CliRunner().invoke(app, [*arguments, "--url", f"http://127.0.0.1:{server.port}", "--json"])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


@pytest.mark.clause("J15")
def test_a_worker_registers_its_schedules_when_it_starts(client: driftq.Client) -> None:
    jobs = driftq.Jobs(client)
    ticked = threading.Event()

    @jobs.periodic("* * * * * *", timezone="Asia/Tokyo", missed="last", name="worker-tick")
    @jobs.task(queue="periodic-queue", max_retries=2)
    def tick() -> None:
        ticked.set()

    with pytest.raises(ScheduleNotFound):
        client.schedules.get("worker-tick")
    with jobs:
        assert ticked.wait(30)
        shown = client.schedules.get("worker-tick")
        client.schedules.remove("worker-tick")
    assert (shown.task, shown.queue, shown.timezone, shown.missed) == (
        "tick",
        "periodic-queue",
        "Asia/Tokyo",
        "last",
    )
    assert shown.max_retries == 2


@pytest.mark.clause("J15")
def test_only_a_task_without_needed_arguments_is_periodic(client: driftq.Client) -> None:
    jobs = driftq.Jobs(client)

    @jobs.task(queue="mail")
    def send(to: str) -> None: ...

    with pytest.raises(InvalidArgument, match="needs arguments"):
        jobs.periodic("* * * * *")(send)


@pytest.mark.clause("J18", "J19")
def test_a_task_computes_the_limit_key_of_its_jobs_and_waits_for_others(client: driftq.Client) -> None:
    jobs = driftq.Jobs(client)

    @jobs.task(queue="keyed-queue", limit_key=lambda order, region: f"{region}/{order['customer']}")
    def ship(order: dict[str, str], weight: int = 1, region: str = "eu") -> None: ...

    first = ship.enqueue({"customer": "ada"}, weight=7)
    second = ship.enqueue({"customer": "bob"}, region="us", after=[first])
    assert client.jobs.get(first.job_id).limit_key == "eu/ada"
    view = client.jobs.get(second.job_id)
    assert (view.limit_key, view.state, view.after) == ("us/bob", "blocked", [first.job_id])
    with pytest.raises(InvalidArgument, match="no argument 'customer'"):
        jobs.task(queue="mail", name="other", limit_key=lambda customer: customer)(ship.call)


@pytest.mark.clause("J18")
def test_a_worker_sets_the_limits_of_its_queues_when_it_starts(client: driftq.Client) -> None:
    jobs = driftq.Jobs(client)
    limits = driftq.JobLimits(concurrency=1, rate=(500, 0.5), key_concurrency=1, key_rate=(100, 60))
    running, most = [0], [0]

    @jobs.task(queue="limited-queue", limits=limits)
    def count() -> None:
        running[0] += 1
        most[0] = max(most[0], running[0])
        running[0] -= 1

    with pytest.raises(InvalidArgument, match="declared differently"):
        jobs.task(queue="limited-queue", name="other", limits=driftq.JobLimits())(count.call)
    with jobs:
        for handle in count.enqueue_many([()] * 20):
            handle.result(timeout=30)
    [queue] = [one for one in client.queues.list() if one.queue == "limited-queue"]
    assert msgspec.to_builtins(queue.limits) == {
        "concurrency": 1,
        "rate": {"count": 500, "per_ms": 500},
        "per_key": {"concurrency": 1, "rate": {"count": 100, "per_ms": 60_000}},
    }
    assert most == [1]


@pytest.mark.clause("J15", "J18", "J20")
def test_schedules_and_queues_from_the_command_line(server: Server) -> None:
    added = run(server, "schedule", "add", "cli-s", "0 5 * * *", "cli-queue", "build", '{"a": 1}')
    assert (added["payload"], added["cron"]) == ({"a": 1}, "0 5 * * *")
    assert run(server, "schedule", "pause", "cli-s")["paused"] is True
    assert run(server, "schedule", "resume", "cli-s")["paused"] is False
    assert run(server, "schedule", "run-now", "cli-s")["state"] == "ready"
    replaced = run(server, "schedule", "add", "cli-s", "0 6 * * *", "cli-queue", "build", "--replace")
    assert replaced["cron"] == "0 6 * * *"
    assert "cli-s" in [one["name"] for one in run(server, "schedule", "list")["schedules"]]
    assert run(server, "schedule", "remove", "cli-s")["status"] == "removed"
    limited = run(server, "queue", "limits", "cli-queue", "--rate", "5/60", "--key-concurrency", "2")
    assert limited["limits"] == {"rate": {"count": 5, "per_ms": 60_000}, "per_key": {"concurrency": 2}}
    assert run(server, "queue", "pause", "cli-queue")["paused"] is True
    assert run(server, "queue", "resume", "cli-queue")["paused"] is False
    assert "cli-queue" in [one["queue"] for one in run(server, "queue", "list")["queues"]]
    assert run(server, "queue", "limits", "cli-queue", "--none")["limits"] == {}

"""Schedules over HTTP: created, replaced, listed, paused, run by hand, and fired by the server."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from tests.contract.job_queue import Queue, instant
from tests.contract.serving import Server
from tests.support.waiting import wait_until

DAILY = {"cron": "30 2 * * *", "queue": "reports", "task": "build"}


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.node.originalname)


@pytest.mark.clause("J15")
def test_a_schedule_is_created_once_and_replaced_by_put(server: Server, name: str) -> None:
    made = server.post("/v1/schedules", {"name": name, "payload": {"a": [1, None]}, **DAILY})
    assert made.status == 201
    assert (made.json["timezone"], made.json["missed"], made.json["paused"]) == ("UTC", "skip", False)
    assert made.json["payload"] == {"a": [1, None]}
    assert made.json["last_at"] is None
    fires = dt.datetime.fromisoformat(made.json["next_at"])
    assert (fires.hour, fires.minute, fires.second) == (2, 30, 0)
    assert 0 < fires.timestamp() - time.time() <= 86_400
    same = {"name": name, "payload": {"a": [1, None]}, **DAILY}
    assert server.post("/v1/schedules", same).status == 200
    other = server.post("/v1/schedules", {"name": name, **DAILY, "cron": "0 3 * * *"})
    other.refused(409, "ALREADY_EXISTS")
    replaced = server.put(f"/v1/schedules/{name}", {**DAILY, "cron": "0  3 * * *", "timezone": "Asia/Tokyo"})
    assert (replaced.status, replaced.json["cron"], replaced.json["timezone"]) == (
        200,
        "0 3 * * *",
        "Asia/Tokyo",
    )
    assert server.get(f"/v1/schedules/{name}").json == replaced.json
    listed = server.get("/v1/schedules", after=name[:-1]).json["schedules"]
    assert replaced.json in listed
    gone = server.delete(f"/v1/schedules/{name}")
    assert (gone.status, gone.json) == (200, {"name": name, "status": "removed"})
    server.get(f"/v1/schedules/{name}").refused(404, "NOT_FOUND")
    server.delete(f"/v1/schedules/{name}").refused(404, "NOT_FOUND")


@pytest.mark.clause("J15")
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cron", "61 * * * *"),
        ("cron", "* * *"),
        ("cron", "0 0 30 2 *"),
        ("timezone", "Mars/Olympus"),
        ("timezone", "../../etc/passwd"),
        ("missed", "maybe"),
        ("priority", 10),
        ("unknown", 1),
    ],
)
def test_what_cannot_be_scheduled_is_refused(server: Server, name: str, field: str, value: object) -> None:
    server.post("/v1/schedules", {"name": name, **DAILY, field: value}).refused(400, "INVALID_ARGUMENT")
    server.get(f"/v1/schedules/{name}").refused(404, "NOT_FOUND")


@pytest.mark.clause("J15", "J11")
def test_it_fires_and_the_key_of_its_job_is_its_name_and_the_fire_time(server: Server, name: str) -> None:
    queue = Queue(server)
    body = {"cron": "* * * * * *", "queue": queue.name, "task": "tick", "missed": "all", "priority": 7}
    server.post("/v1/schedules", {"name": name, **body})
    jobs = [job for _ in range(3) for job in queue.claim(wait_ms=10_000)]
    server.post(f"/v1/schedules/{name}/pause", None)
    keys = [queue.show(job["job_id"])["idempotency_key"] for job in jobs]
    times = [instant(key.removeprefix(f"schedule:{name}:")) for key in keys]
    assert times == [times[0], times[0] + 1, times[0] + 2]
    assert {(job["task"], job["priority"], job["payload"]) for job in jobs} == {("tick", 7, None)}


@pytest.mark.clause("J15")
def test_paused_it_does_not_fire_and_resumed_it_makes_nothing_up(server: Server, name: str) -> None:
    body = {"cron": "* * * * * *", "queue": name, "task": "tick", "missed": "all"}
    server.post("/v1/schedules", {"name": name, **body})
    wait_until("it has fired", lambda: _fired(server, name) >= 1)
    paused = server.post(f"/v1/schedules/{name}/pause", None).json
    assert (paused["paused"], paused["next_at"]) == (True, None)
    ran = server.post(f"/v1/schedules/{name}/run", None)
    assert (ran.status, ran.json["state"]) == (201, "ready")
    assert server.get(f"/v1/jobs/{ran.json['job_id']}").json["task"] == "tick"
    asleep = time.time() + 2.2
    wait_until("two fire times are over", lambda: time.time() > asleep)
    assert _fired(server, name) == paused["fired"]
    server.post(f"/v1/schedules/{name}/resume", None)
    wait_until("it fires again", lambda: _fired(server, name) > paused["fired"])
    first = server.get("/v1/jobs", queue=name).json["jobs"][paused["fired"] + 1]
    assert instant(first["idempotency_key"].removeprefix(f"schedule:{name}:")) > asleep - 0.3
    server.delete(f"/v1/schedules/{name}")


def _fired(server: Server, name: str) -> int:
    return int(server.get(f"/v1/schedules/{name}").json["fired"])

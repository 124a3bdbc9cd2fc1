"""A thousand schedules and a server that is killed twenty times: each due time fires exactly once.

The machine's clock moves on while the server is away: every schedule has missed fires when it starts.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Broken, Client, ServerProcess
from tests.support.shifted_clock import ShiftedClock
from tests.support.waiting import wait_until

SCHEDULES = 1_000
KILLS = 20
AWAY_S = 120
"""How far the clock goes on while the server is away, each time."""
PERIOD_S = 60


class Drain(threading.Thread):
    """Claims and completes until told to stop."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__(daemon=True)
        self._client = Client(server.port)
        self.stopping = threading.Event()

    def run(self) -> None:
        ask = {"queues": ["ticks"], "owner": "drain", "lease_ms": 600_000, "max": 500, "wait_ms": 200}
        while not self.stopping.is_set():
            try:
                answer = self._client.post("/v1/jobs/claim", ask)
                jobs = answer.body["jobs"] if answer.status == 200 else []
                results = [
                    {"job_id": job["job_id"], "token": job["token"], "outcome": "complete"} for job in jobs
                ]
                if results:
                    self._client.post("/v1/jobs/settle", {"owner": "drain", "results": results})
            except Broken:
                self.stopping.wait(0.02)


@pytest.mark.clause("J15", "W3")
def test_a_thousand_schedules_fire_each_due_time_once_through_twenty_kills(tmp_path: Path) -> None:
    shift = ShiftedClock(tmp_path / "clock")
    server = ServerProcess(tmp_path / "data", env=shift.env)
    with server:
        client = server.client()
        first: dict[str, str] = {}
        for number in range(SCHEDULES):
            body = {"name": f"s-{number}", "cron": f"{number % 60} * * * * *", "queue": "ticks"}
            made = client.post("/v1/schedules", body | {"task": "tick", "missed": "all", "payload": number})
            assert made.status == 201, made
            first[f"s-{number}"] = made.body["next_at"]
        drain = Drain(server)
        drain.start()
        for kill in range(1, KILLS + 1):
            server.kill()
            shift.set(kill * AWAY_S)
            server.start()
            wait_until("a worker gets fires of this life", lambda: _fired(server) > 0)
        wait_until("every schedule is up to date", lambda: _behind(server.client()) == 0)
        listed = _schedules(server.client())
        fires = _fires(server.client())
        drain.stopping.set()
        drain.join(60)
    assert Counter(fires).most_common(1)[0][1] == 1, "no fire twice"
    for schedule in listed:
        name = schedule["name"]
        mine = sorted(key for key in fires if key.startswith(f"schedule:{name}:"))
        assert mine[0] == f"schedule:{name}:{first[name]}"
        assert mine[-1] >= f"schedule:{name}:{schedule['last_at']}"
        seconds = [_seconds(key) for key in mine]
        assert seconds == list(range(seconds[0], seconds[0] + PERIOD_S * len(mine), PERIOD_S)), name
        assert len(mine) >= KILLS * AWAY_S // PERIOD_S


def _seconds(key: str) -> int:
    return int(dt.datetime.fromisoformat(key.split(":", 2)[2]).timestamp())


def _schedules(client: Client) -> list[dict[str, Any]]:
    found = client.get("/v1/schedules", limit=1_000).body
    assert "after" not in found
    return list(found["schedules"])


def _fired(server: ServerProcess) -> int:
    return sum(schedule["fired"] for schedule in _schedules(server.client()))


def _behind(client: Client) -> int:
    """How many schedules have a fire time that is over."""
    listed = _schedules(client)
    latest = max(schedule["last_at"] or "" for schedule in listed)
    return sum(schedule["next_at"] < latest for schedule in listed)


def _fires(client: Client) -> list[str]:
    """The keys of all jobs, from outside."""
    keys: list[str] = []
    query: dict[str, Any] = {"queue": "ticks", "limit": 1_000}
    while True:
        page = client.get("/v1/jobs", **query).body
        keys += [job["idempotency_key"] for job in page["jobs"]]
        if "after" not in page:
            return keys
        query["after"] = page["after"]

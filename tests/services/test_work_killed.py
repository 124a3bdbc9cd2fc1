"""Schedules, limits, a pause, dependencies and an outbox at once, and a server that is killed under them.

Nothing but what workers, the outbox's database and the API show counts: each fire, each row and each job is
there once and has run; no limit was exceeded, nothing ran before what it waits for, and nothing while its
queue was paused.
"""

from __future__ import annotations

import datetime as dt
import random
import sqlite3
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

import driftq
from driftq.model.wire.jobs import JobView
from driftq.model.wire.queues import ScheduleView
from tests.acceptance.outbox.story import RELAY
from tests.harness import ServerProcess
from tests.services.killed_work import Observed, Worker
from tests.support.waiting import wait_until

KILLS = 12
FAMILIES = 60
"""Each has three parts and a job that waits for them."""
SCHEDULES = 20
ROWS_A_ROUND = 25
CONCURRENCY = 4
OF_KEY = 1


@pytest.mark.clause("J15", "J18", "J19", "J20", "J21", "W3")
def test_everything_at_once_through_kills(tmp_path: Path) -> None:
    chance = random.Random(2026)
    database = f"sqlite:///{tmp_path / 'shop.db'}"
    observed = Observed(most=CONCURRENCY, most_of_key=OF_KEY)
    with ServerProcess(tmp_path / "data") as server:
        url = f"http://127.0.0.1:{server.port}"
        with driftq.Client(url) as client, closing(sqlite3.connect(database[10:], timeout=60)) as connection:
            driftq.outbox.create(connection)
            connection.commit()
            client.queues.limit("limited", concurrency=CONCURRENCY, key_concurrency=OF_KEY)
            payload = {"key": ""}
            for number in range(SCHEDULES):
                client.schedules.create(
                    f"s-{number}", "* * * * * *", queue="ticks", task="tick", payload=payload, missed="all"
                )
            families = [_enqueue(client, number) for number in range(FAMILIES)]
            queues = ("limited", "ends", "ticks", "mail")
            workers = [Worker(server, observed, *queues) for _ in range(8)]
            relay = subprocess.Popen([sys.executable, str(RELAY), database, url], stderr=subprocess.DEVNULL)
            try:
                for worker in workers:
                    worker.start()
                rows = 0
                for kill in range(KILLS):
                    for _ in range(ROWS_A_ROUND):
                        _write_row(connection, client, rows)
                        rows += 1
                    if kill == KILLS // 3:
                        client.queues.pause("ends")
                        observed.closed["ends"] = time.monotonic()
                    if kill == 2 * KILLS // 3:
                        del observed.closed["ends"]
                        client.queues.resume("ends")
                    enough = len(observed.completed) + chance.randint(10, 60)
                    wait_until("work goes on", partial(observed.has_completed, enough))
                    server.restart()
                wait_until(
                    "every family has ended",
                    lambda: all(family[-1] in observed.completed for family in families),
                    within_s=180,
                )
                wait_until("every row is sent", lambda: _unsent(connection) == 0, within_s=120)
                for number in range(SCHEDULES):
                    client.schedules.pause(f"s-{number}")
                fired = {one.name: one for one in client.schedules.list()}
                wait_until("no job is left", lambda: _left(client) == 0, within_s=120)
            finally:
                for worker in workers:
                    worker.stopping.set()
                relay.kill()
                relay.wait()
            for worker in workers:
                worker.join(60)
            assert observed.problems == []
            assert observed.peak["limited"] == CONCURRENCY
            _check_jobs(client, families, rows)
            _check_fires(client, fired)


def _enqueue(client: driftq.Client, number: int) -> list[str]:
    """Three parts, each with another limit key, and a job that waits for them."""
    parts = [
        client.jobs.enqueue("limited", "part", {"key": key}, limit_key=key).job_id
        for key in (f"k-{number % 3}", f"k-{number % 5}", f"k-{number % 7}")
    ]
    whole = client.jobs.enqueue("ends", "whole", {"key": "", "after": parts}, after=parts)
    return [*parts, whole.job_id]


def _write_row(connection: sqlite3.Connection, client: driftq.Client, number: int) -> None:
    jobs = driftq.Jobs(client)
    mail = jobs.task(queue="mail", name="mail")(_mail)
    with connection:
        driftq.outbox.enqueue(connection, mail, key="", row=number)


def _mail(key: str, row: int) -> None: ...


def _unsent(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM driftq_outbox").fetchone()[0])


def _left(client: driftq.Client) -> int:
    return sum(one.ready + one.scheduled + one.blocked + one.in_flight for one in client.queues.list())


def _all(client: driftq.Client, queue: str) -> list[JobView]:
    found: list[JobView] = []
    while page := client.jobs.list(queue=queue, limit=1_000, after=found[-1].job_id if found else None):
        found += page
    return found


def _check_jobs(client: driftq.Client, families: list[list[str]], rows: int) -> None:
    mail = _all(client, "mail")
    assert [job.payload["row"] for job in mail] == list(range(rows)), "each row once, in order"
    jobs = [*mail, *_all(client, "limited"), *_all(client, "ends"), *_all(client, "ticks")]
    assert Counter(job.state for job in jobs) == {"succeeded": len(jobs)}
    assert {job.job_id for job in jobs} >= {one for family in families for one in family}


def _check_fires(client: driftq.Client, schedules: dict[str, ScheduleView]) -> None:
    keys = Counter(job.idempotency_key for job in _all(client, "ticks"))
    assert set(keys.values()) == {1}, "no fire twice"
    assert sum(one.fired for one in schedules.values()) == len(keys)
    fires: defaultdict[str, list[int]] = defaultdict(list)
    for key in keys:
        _, name, at = str(key).split(":", 2)
        fires[name].append(int(dt.datetime.fromisoformat(at).timestamp()))
    for name in schedules:
        seconds = sorted(fires[name])
        assert seconds == list(range(seconds[0], seconds[0] + len(seconds))), f"{name} left out a second"

"""Applications and relays killed with SIGKILL at random: what arrives is exactly what was committed.

Two applications write overlapping transactions, two relays stand by, and one process after the other is
killed at a random moment and started again. At the end each committed row is one job, message or event, in
the order of its transaction, and no rolled-back or torn one is there.
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

import driftq
from tests.acceptance.outbox.application import kind_of
from tests.harness import ServerProcess
from tests.services_postgres import own_database_url, postgres_url
from tests.support.waiting import wait_until

__all__ = ["own_database_url", "postgres_url"]

APPLICATION = Path(__file__).with_name("application.py")
RELAY = Path(__file__).with_name("relay.py")
ROWS = {"postgresql": 20_000, "sqlite": 3_000}
TABLES = ("CREATE TABLE shop (tx text, count int)", "CREATE TABLE enough (yes int)")


@pytest.fixture(params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'shop.db'}"
    return str(request.getfixturevalue("own_database_url"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", "--fsync", "interval") as running:
        yield running


def connect(database: str) -> Any:
    if database.startswith("sqlite"):
        return closing(sqlite3.connect(database.removeprefix("sqlite:///"), timeout=60))
    return closing(psycopg.connect(database))


class Doomed:
    """Processes that are killed and started again."""

    def __init__(self, commands: list[Callable[[], list[str]]]) -> None:
        self._commands = commands
        self.processes = [self._start(command) for command in commands]
        self.kills = 0

    @staticmethod
    def _start(command: Callable[[], list[str]]) -> subprocess.Popen[bytes]:
        return subprocess.Popen([sys.executable, *command()], stderr=subprocess.DEVNULL)

    def kill_one(self, chance: random.Random) -> None:
        self._kill(chance.randrange(len(self.processes)))

    def kill_process(self, pid: int) -> bool:
        """Kill the process with this id; tells whether there is one."""
        for index, process in enumerate(self.processes):
            if process.pid == pid:
                self._kill(index)
                return True
        return False

    def _kill(self, index: int) -> None:
        self.processes[index].kill()
        self.processes[index].wait()
        self.kills += 1
        self.processes[index] = self._start(self._commands[index])

    def kill_all(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.mark.clause("J21")
def test_what_arrives_is_what_was_committed(database: str, server: ServerProcess) -> None:
    chance = random.Random(17)
    url = f"http://127.0.0.1:{server.port}"
    with driftq.Client(url) as client, connect(database) as connection:
        client.create_topic("orders")
        for statement in TABLES:
            connection.execute(statement)
        driftq.outbox.create(connection)
        connection.commit()
        seeds = iter(range(1_000))
        applications = Doomed([lambda: [str(APPLICATION), database, str(next(seeds))]] * 2)
        relays = Doomed([lambda: [str(RELAY), database, url]] * 2)

        def has_committed(rows: int) -> bool:
            count = connection.execute("SELECT coalesce(sum(count), 0) FROM shop").fetchone()[0]
            connection.rollback()
            return int(count) >= rows

        relayed = [0]

        def has_killed_the_relay_at_work() -> bool:
            """Once it has sent something since the last kill."""
            row = connection.execute("SELECT owner, last_position FROM driftq_outbox_relay").fetchone()
            connection.rollback()
            if row is None or row[1] <= relayed[-1] or not relays.kill_process(int(row[0].split(":")[-1])):
                return False
            relayed.append(row[1])
            return True

        try:
            wanted = ROWS["sqlite" if database.startswith("sqlite") else "postgresql"]
            steps = 12
            for step in range(1, steps + 1):
                reached = wanted * step // steps
                wait_until(f"{reached} rows are committed", partial(has_committed, reached), within_s=200)
                applications.kill_one(chance)
                wait_until("a relay is killed at work", has_killed_the_relay_at_work, within_s=200)
            connection.execute("INSERT INTO enough VALUES (1)")
            connection.commit()
            for process in applications.processes:
                process.wait(60)
        finally:
            applications.kill_all()
            relays.kill_all()
        assert applications.kills + relays.kills == 2 * steps
        takeovers = connection.execute("SELECT token FROM driftq_outbox_relay").fetchone()[0]
        connection.rollback()
        assert takeovers >= steps
        run = ["-m", "driftq", "outbox", "run", "--database", database, "--url", url]
        subprocess.run([sys.executable, *run, "--once"], check=True, timeout=240)
        shop = {str(tx): int(count) for tx, count in connection.execute("SELECT tx, count FROM shop")}
        assert sum(shop.values()) >= wanted
        expected: list[dict[str, list[int]]] = [{}, {}, {}]
        for tx, count in shop.items():
            for i in range(count):
                expected[kind_of(i)].setdefault(tx, []).append(i)
        assert arrived(record.json() for record in client.records("orders")) == expected[0]
        assert arrived(all_jobs(client)) == expected[1]
        assert arrived(event.payload for event in driftq.EventStore(client).log()) == expected[2]


def arrived(payloads: Any) -> dict[str, list[int]]:
    """By transaction, the rows in the order of their arrival."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for payload in payloads:
        found[payload["tx"]].append(payload["i"])
    return dict(found)


def all_jobs(client: driftq.Client) -> Iterator[dict[str, Any]]:
    after: str | None = None
    while page := client.jobs.list(queue="mail", limit=1_000, after=after):
        yield from (job.payload for job in page)
        after = page[-1].job_id


def test_a_relay_waits_through_an_outage_of_the_server(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'shop.db'}"
    with ServerProcess(tmp_path / "data") as server, connect(database) as connection:
        url = f"http://127.0.0.1:{server.port}"
        with driftq.Client(url, timeout_s=1) as client:
            client.create_topic("orders")
            driftq.outbox.create(connection)
            connection.commit()
            server.kill()
            driftq.outbox.produce(connection, "orders", "1")
            connection.commit()
            run = ["-m", "driftq", "outbox", "run", "--database", database, "--url", url]
            relay = subprocess.Popen([sys.executable, *run], stderr=subprocess.PIPE, text=True)
            try:
                assert relay.stderr is not None
                wait_for_line(relay.stderr, "waits")
                server.start()
                wait_until(
                    "the row is sent",
                    lambda: [r.value for r in client.records("orders")] == ["1"],
                    within_s=60,
                )
            finally:
                relay.terminate()
                relay.communicate(timeout=30)
            assert relay.returncode == 0


def wait_for_line(lines: Any, word: str) -> None:
    end = time.monotonic() + 90
    for line in lines:
        if word in line:
            return
        assert time.monotonic() < end
    raise AssertionError(f"it ended without {word}")

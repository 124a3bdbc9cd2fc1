"""The story of an outbox whose applications and relays are killed, for as many rows as a test wants.

Two applications write overlapping transactions, two relays stand by, and one process after the other is
killed at a random moment and started again. At the end each committed row is one job, message or event, in
the order of its transaction, and no rolled-back or torn one is there.
"""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

import driftq
from tests.acceptance.outbox.application import kind_of
from tests.harness import ServerProcess
from tests.support.waiting import wait_until

APPLICATION = Path(__file__).with_name("application.py")
RELAY = Path(__file__).with_name("relay.py")
TABLES = ("CREATE TABLE shop (tx text, count int)", "CREATE TABLE enough (yes int)")


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


def run_story(database: str, server: ServerProcess, *, rows: int, steps: int) -> None:
    """Let them write this many rows; in each step an application and a relay are killed."""
    chance = random.Random(rows)
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

        def has_committed(number: int) -> bool:
            count = connection.execute("SELECT coalesce(sum(count), 0) FROM shop").fetchone()[0]
            connection.rollback()
            return int(count) >= number

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
            for step in range(1, steps + 1):
                reached = rows * step // steps
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
        assert sum(shop.values()) >= rows
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

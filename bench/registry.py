"""Claims a second in the registry, one by one and 64 a transaction, on SQLite and on PostgreSQL.

Every claim is of a fresh event of a fresh aggregate, both with random ids, and is followed by its mark: two
durable transactions each, or two for 64 of them. What the disk itself needs is measured in the same run.
"""

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from bench.harness.figure import Figure
from bench.machine import folder, settled
from bench.postgres import postgres
from bench.timed import Calls, TimedDatabase, alternated, figures, percentiles
from driftq.registry import Effect, EventKey, Handler
from driftq.registry.sql_registry import BATCH_MAX, MIGRATIONS, SqlRegistry
from driftq.sql import Database, open_database, upgrade

PAGES = 80
HANDLER = Handler("bench", Effect.IDEMPOTENT)


def claims() -> list[Figure]:
    """Both engines, with the setting that says when a commit is on disk."""
    return [*_bare(), *_on_sqlite(), *_on_postgres(), *_bare()]


def _bare() -> list[Figure]:
    """The disk alone: about what one transaction of 64 writes to SQLite's journal."""
    took: list[float] = []
    octets = os.urandom(PAGES * 4096)
    with folder() as place, (place / "bare").open("wb", buffering=0) as file:
        for _ in range(200):
            at = time.perf_counter()
            file.write(octets)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - at) * 1000)
    p50, p99 = percentiles(took)
    name = f"bare {PAGES * 4} KiB write + fdatasync"
    return [Figure(f"{name}, p50", p50, "ms"), Figure(f"{name}, p99", p99, "ms")]


def _on_sqlite() -> list[Figure]:
    with folder() as place:
        return _measure(f"sqlite:///{place}/registry.db", "SQLite, synchronous=FULL", aim=10)


def _on_postgres() -> list[Figure]:
    with postgres() as url:
        return _measure(url, "PostgreSQL, fsync=on, synchronous_commit=on", aim=5)


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    database = open_database(url)
    try:
        upgrade(database, [MIGRATIONS])
        with settled():
            yield database
    finally:
        database.close()


def _measure(url: str, engine: str, *, aim: int) -> list[Figure]:
    with _opened(url) as database:
        timed = TimedDatabase(database)
        registry = SqlRegistry(timed)

        def run(size: int, seconds: float) -> Calls:
            """Two calls for each event: the claim and the mark."""
            end = time.perf_counter() + seconds
            took: Calls = []
            while time.perf_counter() < end:
                events = [EventKey(key, "order", key, 1) for key in (str(uuid.uuid4()) for _ in range(size))]
                at = time.perf_counter()
                granted = registry.claim_all(HANDLER, events)
                between = time.perf_counter()
                registry.mark_done_all(granted)
                took += [(between - at) * 1000, (time.perf_counter() - between) * 1000]
            return took

        measured = alternated(timed, run, size=BATCH_MAX)
    return figures("claim + mark_done", engine, measured, size=BATCH_MAX, aim=aim, calls_per_event=2)

"""Claims a second in the registry, one by one and 64 a transaction, on SQLite and on PostgreSQL.

Every claim is of a fresh event of a fresh aggregate, both with random ids, and is followed by its mark: two
durable transactions each, or two for 64 of them. What the disk itself needs is measured in the same run.
"""

import os
import statistics
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from bench.machine import folder, settled
from bench.postgres import postgres
from bench.report import Figure
from driftq.registry import Effect, EventKey, Handler
from driftq.registry.sql_registry import BATCH_MAX, MIGRATIONS, SqlRegistry
from driftq.sql import Database, open_database, upgrade

SECONDS = 4.0
PAGES = 80
HANDLER = Handler("bench", Effect.IDEMPOTENT)


def claims() -> list[Figure]:
    """Both engines, with the setting that says when a commit is on disk."""
    return [_bare(), *_on_sqlite(), *_on_postgres(), _bare()]


def _bare() -> Figure:
    """The disk alone: about what one transaction of 64 writes to SQLite's journal."""
    took: list[float] = []
    octets = os.urandom(PAGES * 4096)
    with folder() as place, (place / "bare").open("wb", buffering=0) as file:
        for _ in range(200):
            at = time.perf_counter()
            file.write(octets)
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - at) * 1000)
    p50, p99 = _percentiles(took)
    return Figure(f"bare {PAGES * 4} KiB write + fdatasync, p50 and p99", f"{p50:.1f} and {p99:.1f} ms")


def _on_sqlite() -> list[Figure]:
    with folder() as place, _opened(f"sqlite:///{place}/registry.db") as database:
        return _measure(database, "SQLite, synchronous=FULL", aim=10)


def _on_postgres() -> list[Figure]:
    with postgres() as url, _opened(url) as database:
        return _measure(database, "PostgreSQL, fsync=on, synchronous_commit=on", aim=5)


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    database = open_database(url)
    try:
        upgrade(database, [MIGRATIONS])
        with settled():
            yield database
    finally:
        database.close()


def _measure(database: Database, engine: str, *, aim: int) -> list[Figure]:
    registry = SqlRegistry(database)
    _run(registry, size=BATCH_MAX, seconds=0.5)  # Plans, caches and files are there from now on.
    single, _ = _run(registry, size=1, seconds=SECONDS)
    batched, took = _run(registry, size=BATCH_MAX, seconds=SECONDS)
    p50, p99 = _percentiles(took)
    ratio = batched / single
    return [
        Figure(f"claim + mark_done, one by one ({engine})", f"{single:,.0f}/s"),
        Figure(f"claim + mark_done, {BATCH_MAX} a transaction ({engine})", f"{batched:,.0f}/s"),
        Figure("… as a multiple of one by one", f"{ratio:.1f}×", f"≥ {aim}×", ratio >= aim),
        Figure(f"… one transaction of {BATCH_MAX}, p50", f"{p50:.1f} ms"),
        Figure(f"… one transaction of {BATCH_MAX}, p99", f"{p99:.1f} ms", "≤ 10 ms", p99 <= 10),
    ]


def _run(registry: SqlRegistry, *, size: int, seconds: float) -> tuple[float, list[float]]:
    """Events finished a second, and the milliseconds of each transaction."""
    began, count = time.perf_counter(), 0
    took: list[float] = []
    while (passed := time.perf_counter() - began) < seconds:
        events = [EventKey(key, "order", key, 1) for key in (str(uuid.uuid4()) for _ in range(size))]
        at = time.perf_counter()
        granted = registry.claim_all(HANDLER, events)
        between = time.perf_counter()
        registry.mark_done_all(granted)
        took += [(between - at) * 1000, (time.perf_counter() - between) * 1000]
        count += size
    return count / passed, took


def _percentiles(took: list[float]) -> tuple[float, float]:
    return statistics.median(took), statistics.quantiles(took, n=100)[98]

"""Appends of single events over HTTP to the event store on SQLite, beside a bare loop of durable inserts."""

import sqlite3
import time
import uuid
from functools import partial
from pathlib import Path

from bench.beside.setting import OURS, VALUE
from bench.harness.figure import Bound, Figure, at_least, at_most
from bench.harness.plan import plan
from bench.harness.rounds import Sample, Side, interleave, p99_ms
from bench.harness.wrk import Appends, load
from bench.machine import folder, server

BARE = "bare SQLite insert, synchronous=FULL"
CALLERS: dict[int, tuple[Bound | None, Bound | None]] = {
    1: (at_least(0.45), None),
    16: (None, at_most(20)),
    64: (at_least(4), None),
}
"""And the bounds of the ratio to the bare loop, and of the p99 in milliseconds."""


def events() -> list[Figure]:
    found: list[Figure] = []
    with folder() as place, server() as running:
        load(running, Appends(), connections=1, seconds=2.0)  # The first append opens the database.
        for callers, (ratio_aim, p99_aim) in CALLERS.items():
            appends = partial(load, running, Appends(), connections=callers, seconds=plan().seconds)
            bare = partial(bare_inserts, place, plan().seconds / 2)
            rounds = interleave([Side(OURS, appends), Side(BARE, bare)])
            name = f"event append over HTTP, SQLite, {callers} caller{'s' if callers > 1 else ''}"
            found += [
                rounds.figure(name, OURS, "events/s", ratio_to=BARE, ratio_aim=ratio_aim),
                rounds.figure(f"{name}, p99", OURS, "ms", aim=p99_aim, of=p99_ms),
                rounds.figure(f"{name}: bare loop", BARE, "events/s"),
            ]
    return found


def bare_inserts(place: Path, seconds: float) -> Sample:
    """One row of the same size in each transaction, with an index over a random id."""
    database = sqlite3.connect(place / "bare.db", isolation_level=None)
    database.execute("PRAGMA journal_mode=WAL")
    database.execute("PRAGMA synchronous=FULL")
    database.execute(
        "CREATE TABLE IF NOT EXISTS rows (position INTEGER PRIMARY KEY, id TEXT UNIQUE, text TEXT)"
    )
    began, spent, count = time.perf_counter(), time.process_time(), 0
    while (took := time.perf_counter() - began) < seconds:
        database.execute("INSERT INTO rows (id, text) VALUES (?, ?)", (str(uuid.uuid4()), VALUE))
        count += 1
    database.close()
    return Sample(count / took, (time.process_time() - spent) * 1e6 / count)

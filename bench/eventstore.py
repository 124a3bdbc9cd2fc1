"""Appends a second in the event store, one by one and 64 a transaction, and what a long aggregate costs.

Every append is of a fresh event with a payload of 200 bytes to a fresh aggregate, both with random ids; 64 a
transaction are 64 callers of one event each, as a server gathers them. Rates are of the calls alone: what it
costs to make up the events is not the store's.
"""

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from bench.machine import folder, settled
from bench.postgres import postgres
from bench.report import Figure
from bench.timed import TimedDatabase, figures
from driftq.eventstore import Append, EventStore, StoreOptions, rooms
from driftq.model import Event
from driftq.sql import Database, open_database, upgrade

SECONDS = 4.0
OPTIONS = StoreOptions()
BATCH = OPTIONS.transaction_events_max
LONG, SHORT = 100_000, 10
FILLING = 5_000
ROUNDS = 300
PAYLOAD = {"text": "x" * 188}


def appends() -> list[Figure]:
    """Both engines, with the setting that says when a commit is on disk."""
    with folder() as place:
        sqlite = _measure(f"sqlite:///{place}/events.db", "SQLite, synchronous=FULL", aim=10)
    with postgres() as url:
        return sqlite + _measure(url, "PostgreSQL, fsync=on, synchronous_commit=on", aim=5)


def lengths() -> list[Figure]:
    """An append to an aggregate of 100,000 events beside one to an aggregate of 10, in one table."""
    with folder() as place, _opened(f"sqlite:///{place}/events.db") as database:
        sqlite = [_compare(EventStore(database, options=OPTIONS), "SQLite")]
    with postgres() as url, _opened(url) as database:
        return [*sqlite, _compare(EventStore(database, options=OPTIONS), "PostgreSQL")]


@contextmanager
def _opened(url: str) -> Iterator[Database]:
    database = open_database(url, schemas=OPTIONS.schemas)
    try:
        upgrade(database, rooms(database))
        with settled():
            yield database
    finally:
        database.close()


def _measure(url: str, engine: str, *, aim: int) -> list[Figure]:
    with _opened(url) as database:
        timed = TimedDatabase(database)
        store = EventStore(timed, options=OPTIONS)
        _run(store, size=BATCH, seconds=0.5)  # Plans, caches and files are there from now on.
        single, _ = _run(store, size=1, seconds=SECONDS)
        timed.took.clear()
        batched, calls = _run(store, size=BATCH, seconds=SECONDS)
    return figures(
        "append", engine, size=BATCH, single=single, batched=batched, aim=aim, calls=calls, within=timed.took
    )


def _run(store: EventStore, *, size: int, seconds: float) -> tuple[float, list[float]]:
    """Events stored a second, and the milliseconds of each call."""
    end = time.perf_counter() + seconds
    took: list[float] = []
    while time.perf_counter() < end:
        requests = [[_append(str(uuid.uuid4()))] for _ in range(size)]
        took.append(_milliseconds(partial(store.append_many, requests)))
    return size * len(took) * 1000 / sum(took), took


def _compare(store: EventStore, engine: str) -> Figure:
    for _ in range(LONG // FILLING):
        store.append([_append("long") for _ in range(FILLING)])
    long: list[float] = []
    short: list[float] = []
    for _ in range(ROUNDS):
        fresh = str(uuid.uuid4())
        store.append([_append(fresh) for _ in range(SHORT)])
        short.append(_milliseconds(partial(store.append, [_append(fresh)])))
        long.append(_milliseconds(partial(store.append, [_append("long")])))
    ratio = statistics.median(long) / statistics.median(short)
    name = f"append at {LONG:,} events against {SHORT} ({engine})"
    return Figure(name, f"{ratio:.2f}×", "< 1.5×", ratio < 1.5)


def _append(aggregate_id: str) -> Append:
    return Append(
        Event(
            event_id=str(uuid.uuid4()),
            aggregate_type="order",
            aggregate_id=aggregate_id,
            event_type="OrderPlaced",
            kind="event",
            payload=PAYLOAD,
        )
    )


def _milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000

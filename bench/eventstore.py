"""Appends a second in the event store, one by one and 64 a transaction, and what a long aggregate costs.

Every append is of a fresh event with a payload of 200 bytes to a fresh aggregate, both with random ids; 64 a
transaction are 64 callers of one event each, as a server gathers them.
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
from driftq.eventstore import Append, EventStore, StoreOptions, rooms
from driftq.model import Event
from driftq.sql import open_database, upgrade

SECONDS = 4.0
BATCH = StoreOptions().transaction_events_max
LONG, SHORT = 100_000, 10
FILLING = 5_000
ROUNDS = 300
PAYLOAD = {"text": "x" * 188}


def appends() -> list[Figure]:
    """Both engines, with the setting that says when a commit is on disk."""
    with _sqlite() as store:
        figures = _measure(store, "SQLite, synchronous=FULL", aim=10)
    with _postgres() as store:
        return figures + _measure(store, "PostgreSQL, fsync=on, synchronous_commit=on", aim=5)


def lengths() -> list[Figure]:
    """An append to an aggregate of 100,000 events beside one to an aggregate of 10, in one table."""
    with _sqlite() as store:
        figures = [_compare(store, "SQLite")]
    with _postgres() as store:
        return [*figures, _compare(store, "PostgreSQL")]


@contextmanager
def _sqlite() -> Iterator[EventStore]:
    with folder() as place, _opened(f"sqlite:///{place}/events.db") as store:
        yield store


@contextmanager
def _postgres() -> Iterator[EventStore]:
    with postgres() as url, _opened(url) as store:
        yield store


@contextmanager
def _opened(url: str) -> Iterator[EventStore]:
    options = StoreOptions()
    database = open_database(url, schemas=options.schemas)
    try:
        upgrade(database, rooms(database))
        with settled():
            yield EventStore(database, options=options)
    finally:
        database.close()


def _measure(store: EventStore, engine: str, *, aim: int) -> list[Figure]:
    _run(store, size=BATCH, seconds=0.5)  # Plans, caches and files are there from now on.
    single, _ = _run(store, size=1, seconds=SECONDS)
    batched, took = _run(store, size=BATCH, seconds=SECONDS)
    p50, p99 = statistics.median(took), statistics.quantiles(took, n=100)[98]
    ratio = batched / single
    return [
        Figure(f"append, one by one ({engine})", f"{single:,.0f}/s"),
        Figure(f"append, {BATCH} a transaction ({engine})", f"{batched:,.0f}/s"),
        Figure("… as a multiple of one by one", f"{ratio:.1f}×", f"≥ {aim}×", ratio >= aim),
        Figure(f"… one transaction of {BATCH}, p50", f"{p50:.1f} ms"),
        Figure(f"… one transaction of {BATCH}, p99", f"{p99:.1f} ms", "≤ 10 ms", p99 <= 10),
    ]


def _run(store: EventStore, *, size: int, seconds: float) -> tuple[float, list[float]]:
    """Events stored a second, and the milliseconds of each transaction."""
    began, count = time.perf_counter(), 0
    took: list[float] = []
    while (passed := time.perf_counter() - began) < seconds:
        requests = [[_append(str(uuid.uuid4()))] for _ in range(size)]
        took.append(_milliseconds(partial(store.append_many, requests)))
        count += size
    return count / passed, took


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

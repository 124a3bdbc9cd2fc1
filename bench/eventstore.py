"""Appends a second in the event store, one by one and 64 a transaction, and what a long aggregate costs.

Every append is of a fresh event with a payload of 200 bytes to a fresh aggregate with a random id; 64 a
transaction are 64 callers of one event each, as a server gathers them. Event ids are measured twice: as
`driftq.new_event_id` makes them, beginning with their time, and random. Rates are of the calls alone: what it
costs to make up the events is not the store's.
"""

import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from bench.harness.figure import Figure, below
from bench.machine import folder, settled
from bench.postgres import postgres
from bench.timed import Calls, TimedDatabase, alternated, figures
from driftq.client import new_event_id
from driftq.eventstore import Append, EventStore, StoreOptions, event_migrations
from driftq.model import Event
from driftq.sql import Database, open_database, upgrade

OPTIONS = StoreOptions()
BATCH = OPTIONS.transaction_events_max
LONG, SHORT = 100_000, 10
FILLING = 5_000
ROUNDS = 300
PAYLOAD = {"text": "x" * 188}

MakeId = Callable[[], str]


def appends() -> list[Figure]:
    """Both engines and both kinds of ids, with the setting that says when a commit is on disk."""
    found: list[Figure] = []
    for kind, make_id in {"ids by time": new_event_id, "random ids": _random_id}.items():
        with folder() as place:
            name = f"SQLite, synchronous=FULL, {kind}"
            found += _measure(f"sqlite:///{place}/events.db", name, make_id, aim=10)
        with postgres() as url:
            name = f"PostgreSQL, fsync=on, synchronous_commit=on, {kind}"
            found += _measure(url, name, make_id, aim=5)
    return found


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
        upgrade(database, event_migrations(database))
        with settled():
            yield database
    finally:
        database.close()


def _measure(url: str, engine: str, make_id: MakeId, *, aim: int) -> list[Figure]:
    with _opened(url) as database:
        timed = TimedDatabase(database)
        store = EventStore(timed, options=OPTIONS)

        def run(size: int, seconds: float) -> Calls:
            end = time.perf_counter() + seconds
            took: Calls = []
            while time.perf_counter() < end:
                requests = [[_append(_random_id(), make_id)] for _ in range(size)]
                took.append(_milliseconds(partial(store.append_many, requests)))
            return took

        return figures("append", engine, alternated(timed, run, size=BATCH), size=BATCH, aim=aim)


def _compare(store: EventStore, engine: str) -> Figure:
    for _ in range(LONG // FILLING):
        store.append([_append("long") for _ in range(FILLING)])
    long: list[float] = []
    short: list[float] = []
    for _ in range(ROUNDS):
        fresh = _random_id()
        store.append([_append(fresh) for _ in range(SHORT)])
        short.append(_milliseconds(partial(store.append, [_append(fresh)])))
        long.append(_milliseconds(partial(store.append, [_append("long")])))
    ratio = statistics.median(long) / statistics.median(short)
    name = f"append at {LONG:,} events against {SHORT} ({engine})"
    return Figure(name, ratio, "×", below(1.5))


def _random_id() -> str:
    return str(uuid.uuid4())


def _append(aggregate_id: str, make_id: MakeId = new_event_id) -> Append:
    return Append(
        Event(
            event_id=make_id(),
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

"""How long a database's transactions take, from their first statement to their end on disk."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from bench.harness.figure import Figure, at_least, at_most
from driftq.sql import Database, Transaction

P99_MS_MAX = 10
SECONDS = 4.0
SLICE_S = 0.25

Calls = list[float]
"""The milliseconds of each."""


class TimedDatabase:
    """A database that writes down the milliseconds of each transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.took: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextmanager
    def transaction(self, *, planned_once: bool = False) -> Iterator[Transaction]:
        began = time.perf_counter()
        with self._database.transaction(planned_once=planned_once) as transaction:
            yield transaction
        self.took.append((time.perf_counter() - began) * 1000)


def alternated(
    timed: TimedDatabase, run: Callable[[int, float], Calls], *, size: int
) -> tuple[Calls, Calls, list[float]]:
    """Calls of one by one, calls of `size` at once, and the transactions of the latter.

    `run` makes calls of so many for so many seconds. Both kinds take turns, so that a machine which is slower
    for a while, and a table that grows, are the same for both.
    """
    run(size, 0.5)  # Plans, caches and files are there from now on.
    single: Calls = []
    batched: Calls = []
    within: list[float] = []
    for _ in range(int(SECONDS / SLICE_S)):
        single += run(1, SLICE_S)
        timed.took.clear()
        batched += run(size, SLICE_S)
        within += timed.took
    return single, batched, within


def percentiles(took: list[float]) -> tuple[float, float]:
    """The median and the 99th."""
    return statistics.median(took), statistics.quantiles(took, n=100)[98]


def figures(
    name: str,
    engine: str,
    measured: tuple[Calls, Calls, list[float]],
    *,
    size: int,
    aim: int,
    calls_per_event: int = 1,
) -> list[Figure]:
    """What `alternated` found, as rates, their ratio and percentiles."""
    single, batched, within = measured
    one_by_one = 1000 / statistics.mean(single) / calls_per_event
    together = size * 1000 / statistics.mean(batched) / calls_per_event
    ratio = together / one_by_one
    p50, p99 = percentiles(within)
    call_p50, call_p99 = percentiles(batched)
    return [
        Figure(f"{name}, one by one ({engine})", one_by_one, "/s"),
        Figure(f"{name}, {size} a transaction ({engine})", together, "/s"),
        Figure("… as a multiple of one by one", ratio, "×", at_least(aim)),
        Figure(f"… one call for {size}, p50", call_p50, "ms"),
        Figure(f"… one call for {size}, p99", call_p99, "ms"),
        Figure("… its transaction, p50", p50, "ms"),
        Figure("… its transaction, p99", p99, "ms", at_most(P99_MS_MAX)),
    ]

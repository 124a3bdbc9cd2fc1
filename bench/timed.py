"""How long a database's transactions take, from their first statement to their end on disk."""

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bench.report import Figure
from driftq.sql import Database, Transaction

P99_MS_MAX = 10


class TimedDatabase:
    """A database that writes down the milliseconds of each transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.took: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        began = time.perf_counter()
        with self._database.transaction() as transaction:
            yield transaction
        self.took.append((time.perf_counter() - began) * 1000)


def percentiles(took: list[float]) -> tuple[float, float]:
    """The median and the 99th."""
    return statistics.median(took), statistics.quantiles(took, n=100)[98]


def figures(
    name: str,
    engine: str,
    *,
    size: int,
    single: float,
    batched: float,
    aim: int,
    calls: list[float],
    within: list[float],
) -> list[Figure]:
    """One by one beside many a transaction; calls and the transactions within them in milliseconds."""
    ratio = batched / single
    p50, p99 = percentiles(within)
    call_p50, call_p99 = percentiles(calls)
    return [
        Figure(f"{name}, one by one ({engine})", f"{single:,.0f}/s"),
        Figure(f"{name}, {size} a transaction ({engine})", f"{batched:,.0f}/s"),
        Figure("… as a multiple of one by one", f"{ratio:.1f}×", f"≥ {aim}×", ratio >= aim),
        Figure(f"… one call for {size}, p50 and p99", f"{call_p50:.1f} and {call_p99:.1f} ms"),
        Figure("… its transaction, p50", f"{p50:.1f} ms"),
        Figure("… its transaction, p99", f"{p99:.1f} ms", f"≤ {P99_MS_MAX} ms", p99 <= P99_MS_MAX),
    ]

"""Histograms of the server: how long its parts take, counted in fixed buckets.

They cost one search in a short tuple for each commit, claim or settlement, and nothing for a single message.
They only measure: no decision depends on them, so they read a clock of their own (`stopwatch`).
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass, field

stopwatch = time.perf_counter
"""Seconds, for differences only."""

QUICK_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Bounds for what takes milliseconds."""
SLOW_S = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1_800.0, 3_600.0)
"""Bounds for what waits for people and other machines."""
COUNTS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1_000.0, 2_000.0)


class Histogram:
    """How many values fell into each bucket, and their sum."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        """The upper ends of the buckets, each included; one more bucket has no end."""
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, *, times: int = 1) -> None:
        """Count a value; `times` where several share it."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.sum += value * times


def _quick() -> Histogram:
    return Histogram(QUICK_S)


def _slow() -> Histogram:
    return Histogram(SLOW_S)


@dataclass(slots=True)
class Histograms:
    """Every histogram; the name of a field is the metric's without its prefix."""

    produce_seconds: Histogram = field(default_factory=_quick)
    commit_seconds: Histogram = field(default_factory=_quick)
    commit_messages: Histogram = field(default_factory=lambda: Histogram(COUNTS))
    dispatch_seconds: Histogram = field(default_factory=_quick)
    job_wait_seconds: Histogram = field(default_factory=_slow)
    job_run_seconds: Histogram = field(default_factory=_slow)
    event_append_seconds: Histogram = field(default_factory=_quick)

"""Limits and pauses of queues: how they are decided, and how their records are folded."""

from __future__ import annotations

from driftq.core.jobs.limits import QueueLimits
from driftq.core.jobs.table import JobTable
from driftq.core.records import Record, register


class QueueLimited(Record):
    """The queue has these limits from now on."""

    queue: str
    limits: QueueLimits


class QueuePaused(Record):
    """The queue hands out no jobs from now on, or does so again."""

    queue: str
    paused: bool


register(54, QueueLimited)
register(55, QueuePaused)


def fold_limited(jobs: JobTable, record: QueueLimited) -> None:
    """A rate counts the claims since it was set; one that replaces another also counts those before."""
    flow = jobs.flow.queue(jobs, record.queue)
    flow.limits = record.limits
    flow.meter.trim(record.limits.queue.rate, record.at)
    if flow.turns is not None:
        flow.turns.limit_changed(jobs, record.limits.per_key, record.at)


def fold_paused(jobs: JobTable, record: QueuePaused) -> None:
    jobs.flow.queue(jobs, record.queue).paused = record.paused

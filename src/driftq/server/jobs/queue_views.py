"""Queues as clients see them. The jobs are counted a part at a time, so that no request waits for long."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from driftq.core.jobs.limits import ClaimLimit, QueueLimits
from driftq.core.jobs.table import JobState, JobTable
from driftq.model.wire.queues import KeyLimits, LimitsBody, QueueReply, QueuesReply, QueueView, RateLimit
from driftq.server.walk import Walk, in_order

COUNTED_TOGETHER = 1_000
STATE_BITS = 3
_JOBS_A_UNIT = 2
_UNITS_A_VIEW = 10


@dataclass(slots=True)
class QueueTallies:
    """What has been counted, by the number of a queue."""

    now: int
    wall: int
    states: Counter[int] = field(default_factory=Counter)
    """By number and state as one integer: ten thousand tuples would make the collector of garbage work."""
    scheduled: Counter[int] = field(default_factory=Counter)
    waited_ms: dict[int, int] = field(default_factory=dict)
    """How long the job has been due that has been ready for longest."""

    def add(self, jobs: JobTable, start: int, stop: int) -> None:
        """Count the jobs in these columns."""
        states, numbers = jobs.states[start:stop], jobs.queue_numbers[start:stop]
        self.states.update(
            [number << STATE_BITS | state for number, state in zip(numbers, states, strict=True)]
        )
        if JobState.WAITING not in states:
            return
        now, wall, waited_ms = self.now, self.wall, self.waited_ms
        rows = zip(numbers, states, jobs.due[start:stop], jobs.by_wall[start:stop], strict=True)
        for number, state, due, by_wall in rows:
            if state == JobState.WAITING:
                waited = (wall if by_wall else now) - due
                if waited < 0:
                    self.scheduled[number] += 1
                elif waited > waited_ms.get(number, -1):
                    waited_ms[number] = waited


def walk_queues(
    jobs: JobTable, *, now: int, wall: int, limit: int, after: str, shown: Callable[[str], bool]
) -> Walk[QueuesReply]:
    """Queues by name, those after a name that are to be shown."""
    tallies = QueueTallies(now, wall)
    offset = jobs.base
    while offset < jobs.base + len(jobs.states):
        start = max(0, offset - jobs.base)  # Jobs may have been dropped since the last step.
        tallies.add(jobs, start, start + COUNTED_TOGETHER)
        offset = jobs.base + start + COUNTED_TOGETHER
        yield COUNTED_TOGETHER // _JOBS_A_UNIT

    def wanted(name: str) -> bool:
        return name > after and shown(name)

    names = yield from in_order(jobs.queues, wanted, at_most=limit + 1)
    views: list[QueueView] = []
    for name in names[:limit]:
        views.append(_view(jobs, name, tallies))
        yield _UNITS_A_VIEW
    return QueuesReply(views, names[limit - 1] if len(names) > limit else None)


def _view(jobs: JobTable, name: str, tallies: QueueTallies) -> QueueView:
    flow, number = queue_reply(jobs, name), jobs.queues[name].number
    scheduled = tallies.scheduled[number]

    def count(state: JobState) -> int:
        return tallies.states[number << STATE_BITS | state]

    return QueueView(
        queue=name,
        ready=count(JobState.WAITING) - scheduled,
        scheduled=scheduled,
        blocked=count(JobState.BLOCKED),
        in_flight=count(JobState.IN_FLIGHT),
        dead=count(JobState.DEAD),
        oldest_age_ms=tallies.waited_ms.get(number),
        paused=flow.paused,
        limits=flow.limits,
    )


def queue_reply(jobs: JobTable, name: str) -> QueueReply:
    """The flow control of a queue."""
    flow = jobs.flow.queues.get(name)
    if flow is None:
        return QueueReply(name, paused=False, limits=LimitsBody())
    return QueueReply(name, paused=flow.paused, limits=limits_body(flow.limits))


def limits_body(limits: QueueLimits) -> LimitsBody:
    whole, per_key = _shown(limits.queue), _shown(limits.per_key)
    given = per_key if per_key != KeyLimits() else None
    return LimitsBody(concurrency=whole.concurrency, rate=whole.rate, per_key=given)


def _shown(limit: ClaimLimit) -> KeyLimits:
    rate = RateLimit(limit.rate.count, limit.rate.per_ms) if limit.rate is not None else None
    return KeyLimits(limit.concurrency, rate)

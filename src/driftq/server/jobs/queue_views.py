"""Queues as clients see them. The jobs are counted a part at a time, so that no request waits for long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from driftq.core.jobs.limits import ClaimLimit, QueueLimits
from driftq.core.jobs.table import JobState, JobTable
from driftq.core.state import State
from driftq.model.wire.queues import KeyLimits, LimitsBody, QueueReply, QueuesReply, QueueView, RateLimit

COUNTED_TOGETHER = 20_000
_EVERY = (JobState.WAITING, JobState.BLOCKED, JobState.IN_FLIGHT, JobState.DEAD)


@dataclass(slots=True)
class QueueTally:
    """What has been counted of one queue."""

    ready: int = 0
    scheduled: int = 0
    blocked: int = 0
    in_flight: int = 0
    dead: int = 0
    oldest_age_ms: int | None = None


@dataclass(slots=True)
class QueuesTally:
    """Counts jobs up to the end of the table; call `count` until it says that it is done."""

    now: int
    wall: int
    queues: dict[int, QueueTally] = field(default_factory=dict)
    start: int = 0

    def count(self, state: State) -> bool:
        """Count some more jobs; whether all have been counted."""
        jobs = state.jobs
        first = max(self.start - jobs.base, 0)
        columns = zip(jobs.states, jobs.queue_numbers, jobs.due, jobs.by_wall, strict=True)
        for found, number, due, by_wall in islice(columns, first, first + COUNTED_TOGETHER):
            if found in _EVERY:
                tally = self.queues.get(number)
                if tally is None:
                    tally = self.queues[number] = QueueTally()
                self._add(tally, found, (self.wall if by_wall else self.now) - due)
        self.start = jobs.base + first + COUNTED_TOGETHER
        return first + COUNTED_TOGETHER >= len(jobs.states)

    @staticmethod
    def _add(tally: QueueTally, state: int, waited: int) -> None:
        if state == JobState.IN_FLIGHT:
            tally.in_flight += 1
        elif state == JobState.DEAD:
            tally.dead += 1
        elif state == JobState.BLOCKED:
            tally.blocked += 1
        elif waited < 0:
            tally.scheduled += 1
        else:
            tally.ready += 1
            if tally.oldest_age_ms is None or waited > tally.oldest_age_ms:
                tally.oldest_age_ms = waited


def list_queues(
    jobs: JobTable, tally: QueuesTally, *, limit: int, after: str, shows: Callable[[str], bool]
) -> QueuesReply:
    """Queues by name, those after a name that `shows` allows."""
    names = sorted(name for name in jobs.queues if name > after and shows(name))
    views = [_view(jobs, name, tally.queues.get(jobs.queues[name].number)) for name in names[:limit]]
    return QueuesReply(views, names[limit - 1] if len(names) > limit else None)


def _view(jobs: JobTable, name: str, tally: QueueTally | None) -> QueueView:
    flow = queue_reply(jobs, name)
    found = tally or QueueTally()
    return QueueView(
        queue=name,
        ready=found.ready,
        scheduled=found.scheduled,
        blocked=found.blocked,
        in_flight=found.in_flight,
        dead=found.dead,
        oldest_age_ms=found.oldest_age_ms,
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

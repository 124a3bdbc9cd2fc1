"""Flow control: limited and paused queues, the limit keys of jobs, and claims that keep to all that.

A queue without any of it is not listed here, and its claims cost what they did.
"""

from __future__ import annotations

import heapq
from collections.abc import Container
from typing import TYPE_CHECKING

from driftq.core.jobs.limits import FREE, NO_LIMITS, ClaimMeter, QueueLimits
from driftq.core.jobs.queue import AGE_STEP_MS, BITS, MASK, JobQueue
from driftq.core.jobs.turns import KeyTurns

if TYPE_CHECKING:
    from driftq.core.jobs.table import JobTable

Rank = tuple[int, int, int]
"""Smaller is sooner: priority with age, how long it has been due, order of enqueueing."""


class QueueFlow:
    """The flow control of one queue."""

    __slots__ = ("limits", "meter", "paused", "turns")

    def __init__(self) -> None:
        self.limits: QueueLimits = NO_LIMITS
        self.paused = False
        self.meter = ClaimMeter()
        self.turns: KeyTurns | None = None
        """None as long as no job of the queue has had a limit key."""

    def is_open(self, now: int) -> bool:
        """Whether the queue as a whole allows one more claim."""
        return not self.paused and self.meter.free_at(self.limits.queue, now) == FREE


class FlowControl:
    """The fold of limits, pauses and limit keys."""

    def __init__(self) -> None:
        self.queues: dict[str, QueueFlow] = {}
        self.limit_keys: dict[int, str] = {}
        """Of the jobs that have not succeeded."""
        self.now = 0
        """The time of the latest claim."""

    def queue(self, jobs: JobTable, name: str) -> QueueFlow:
        """The flow control of this queue, from now on if it had none."""
        flow = self.queues.get(name)
        if flow is None:
            flow = self.queues[name] = QueueFlow()
            number = jobs.queue(name).number
            flow.meter.in_flight = sum(
                jobs.queue_numbers[offset - jobs.base] == number for offset in jobs.grants
            )
        return flow

    def set_key(self, jobs: JobTable, offset: int, *, queue: JobQueue, key: str) -> None:
        """The job has this limit key."""
        self.limit_keys[offset] = key
        self.turns(jobs, queue.name)

    def turns(self, jobs: JobTable, name: str) -> KeyTurns:
        """The turns of the keys of this queue, from now on if it had none."""
        flow = self.queue(jobs, name)
        if flow.turns is None:
            flow.turns = KeyTurns(jobs, jobs.queue(name))
        return flow.turns

    def place(self, jobs: JobTable, queue: JobQueue, offset: int, entry: int, *, by_wall: bool) -> bool:
        """Let a waiting job take part in the turns of its queue; False when there are none."""
        flow = self.queues.get(queue.name)
        if flow is None or flow.turns is None:
            return False
        flow.turns.place(jobs, offset, entry, by_wall=by_wall)
        return True

    def claimed(self, jobs: JobTable, offset: int, at: int) -> None:
        """A claim is recorded."""
        flow = self.queues.get(jobs.queue_of(offset))
        if flow is None:
            return
        flow.meter.claimed(flow.limits.queue.rate, at)
        name = self.limit_keys.get(offset)
        if name is not None and flow.turns is not None:
            flow.turns.key(name).claimed(flow.limits.per_key.rate, at)

    def released(self, jobs: JobTable, offset: int) -> None:
        """A lease has ended."""
        flow = self.queues.get(jobs.queue_of(offset))
        if flow is None:
            return
        flow.meter.in_flight -= 1
        name = self.limit_keys.get(offset)
        if name is not None and flow.turns is not None:
            flow.turns.released(jobs, name, flow.limits.per_key)

    def give_back(self, jobs: JobTable, offsets: list[int]) -> None:
        """Jobs that `choose_jobs` has chosen are not claimed after all."""
        for offset in offsets:
            slot = offset - jobs.base
            jobs.push(offset, jobs.due[slot], by_wall=bool(jobs.by_wall[slot]))
            flow, name = self.queues.get(jobs.queue_of(offset)), self.limit_keys.get(offset)
            if flow is not None and flow.turns is not None and name is not None:
                flow.turns.unpark(jobs, flow.turns.key(name))

    def next_due(self, jobs: JobTable, name: str, plain: int | None, *, lead_ms: int) -> int | None:
        """When a claim may find a job of this queue; `plain` is when one is due in its plain heaps."""
        flow = self.queues[name]
        free_at = flow.meter.free_at(flow.limits.queue, self.now)
        if flow.paused or free_at is None:
            return None
        due = plain
        if flow.turns is not None:
            due = flow.turns.next_due(jobs, flow.limits.per_key, lead_ms=lead_ms)
        return max(due, free_at) if due is not None else None


class PlainSource:
    """One heap of a queue without limit keys."""

    def __init__(
        self, flow: QueueFlow | None, heap: list[int], *, by_wall: int, priority: int, time: int
    ) -> None:
        self.flow = flow
        self._heap = heap
        self._by_wall = by_wall
        self._priority = priority
        self._time = time

    def rank(self, jobs: JobTable, taken: Container[int]) -> Rank | None:
        """The rank of its first job; None when nothing is due."""
        head = jobs.head(self._heap, self._by_wall)
        while head is not None and head & MASK in taken:
            heapq.heappop(self._heap)  # Given up and requeued in one millisecond: it has two entries.
            head = jobs.head(self._heap, self._by_wall)
        if head is None or head >> BITS > self._time:
            return None
        return _rank(self._priority, self._time - (head >> BITS), head & MASK)

    def take(self, jobs: JobTable, taken: Container[int]) -> int | None:
        return heapq.heappop(self._heap) & MASK


class TurnSource:
    """One priority of a queue whose limit keys take turns."""

    def __init__(self, flow: QueueFlow, turns: KeyTurns, *, priority: int, now: int, wall: int) -> None:
        self.flow: QueueFlow | None = flow
        self._limit = flow.limits.per_key
        self._turns = turns
        self._priority = priority
        self._now = now
        self._wall = wall

    def rank(self, jobs: JobTable, taken: Container[int]) -> Rank | None:
        """The rank of the job that has waited longest, whosever turn it is."""
        oldest = self._turns.longest_waiting(
            jobs, self._priority, taken, self._limit, now=self._now, wall=self._wall
        )
        return _rank(self._priority, *oldest) if oldest is not None else None

    def take(self, jobs: JobTable, taken: Container[int]) -> int | None:
        return self._turns.take(jobs, self._priority, taken, self._limit, now=self._now, wall=self._wall)


def _rank(priority: int, waited: int, offset: int) -> Rank:
    return -(priority + waited // AGE_STEP_MS), -waited, offset


def choose_jobs(jobs: JobTable, names: list[str], *, limit: int, now: int, wall: int) -> list[int]:
    """The next jobs to claim where some of these queues have flow control.

    The jobs are in no heap any more: they have to be claimed, or given back.
    """
    flows = jobs.flow.queues
    jobs.flow.now = now
    sources = _sources(jobs, names, now=now, wall=wall)
    taken: dict[int, None] = {}
    while sources and len(taken) < limit:
        ranks = [(rank, source) for source in sources if (rank := source.rank(jobs, taken)) is not None]
        if not ranks:
            break
        sources = [source for _, source in ranks]  # One without a job now gets none in this decision.
        _, source = min(ranks, key=lambda one: one[0])
        offset = source.take(jobs, taken)
        if offset is None:
            sources.remove(source)
            continue
        taken[offset] = None
        flow = source.flow
        if flow is not None:
            flow.meter.taken += 1
            if not flow.is_open(now):
                sources = [one for one in sources if one.flow is not flow]
    for offset in taken:
        flow = flows.get(jobs.queue_of(offset))
        if flow is not None:
            flow.meter.taken = 0
            name = jobs.flow.limit_keys.get(offset)
            if name is not None and flow.turns is not None:
                flow.turns.key(name).taken = 0
    return list(taken)


def _sources(jobs: JobTable, names: list[str], *, now: int, wall: int) -> list[PlainSource | TurnSource]:
    found: list[PlainSource | TurnSource] = []
    for name in names:
        queue, flow = jobs.queues.get(name), jobs.flow.queues.get(name)
        if queue is None or (flow is not None and not flow.is_open(now)):
            continue
        if flow is not None and flow.turns is not None:
            flow.turns.wake(jobs, flow.limits.per_key, now=now, wall=wall)
            found += [
                TurnSource(flow, flow.turns, priority=priority, now=now, wall=wall)
                for priority in flow.turns.priorities()
            ]
            continue
        for by_wall, heaps, time in ((0, queue.heaps, now), (1, queue.wall_heaps, wall)):
            found += [
                PlainSource(flow, heap, by_wall=by_wall, priority=priority, time=time)
                for priority, heap in enumerate(heaps)
                if heap
            ]
    return found

"""The waiting jobs of a queue whose jobs have limit keys: within a priority the keys take turns.

A lane holds the waiting jobs of one key and one priority, in two heaps as a plain queue has them. Jobs
without a key share a lane. Lanes with a due job are in the ring of their priority; a claim takes the first
job of the first lane and moves the lane to the end. Priorities are compared by the job that has waited
longest in each.

A key at its limit is parked: its lanes leave the ring when they come up, and return when a lease of the key
ends or its rate allows the next claim. So a claim costs a few heap operations, however many keys there are.

None of this is in the log or in a snapshot: it is rebuilt from the jobs. Entries in the heaps may be stale;
they are dropped when they come up.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

from driftq.core.jobs.limits import FREE, ClaimLimit, Meter
from driftq.core.jobs.queue import BITS, MASK, PRIORITIES, JobQueue

if TYPE_CHECKING:
    from collections.abc import Container

    from driftq.core.jobs.table import JobTable

Heaps = tuple[list[int], list[int]]
"""By engine time, and by the wall clock."""


class LimitKey(Meter):
    """One limit key of a queue."""

    __slots__ = ("lanes", "name", "parked")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.lanes: dict[int, Lane] = {}
        """By priority."""
        self.parked = False
        """At its limit."""


class Lane:
    """The waiting jobs of one key and one priority."""

    __slots__ = ("heaps", "in_ring", "key", "priority")

    def __init__(self, key: LimitKey | None, priority: int, heaps: Heaps) -> None:
        self.key = key
        self.priority = priority
        self.heaps = heaps
        self.in_ring = False

    def __lt__(self, other: Lane) -> bool:
        """Lists of lanes are heaps by their jobs; the order of lanes among themselves does not matter."""
        return id(self) < id(other)

    @property
    def is_current(self) -> bool:
        """Whether it has not been dropped as empty."""
        return self.key is None or self.key.lanes.get(self.priority) is self


LaneHeaps = tuple[list[tuple[int, Lane]], list[tuple[int, Lane]]]
"""Lanes by their first jobs."""


class Turns:
    """The lanes of one queue."""

    def __init__(self, jobs: JobTable, queue: JobQueue) -> None:
        self.keys: dict[str, LimitKey] = {}
        self._plain = [
            Lane(None, priority, (queue.heaps[priority], queue.wall_heaps[priority]))
            for priority in range(PRIORITIES)
        ]
        self._rings: list[deque[Lane]] = [deque() for _ in range(PRIORITIES)]
        self._oldest: list[LaneHeaps] = [([], []) for _ in range(PRIORITIES)]
        """For each priority the first jobs of the lanes in its ring."""
        self._waking: LaneHeaps = ([], [])
        """The first jobs of the lanes outside the rings."""
        self._returning: list[tuple[int, str]] = []
        """Heap of when a rate allows a key its next claim, or no longer needs to know the key."""
        for lane in self._plain:
            self._enter(jobs, lane)

    # Waiting

    def place(self, jobs: JobTable, offset: int, entry: int, *, by_wall: bool) -> None:
        """A job waits from now on; its columns say so already."""
        priority = jobs.priorities[offset - jobs.base]
        name = jobs.flow.limit_keys.get(offset)
        lane = self._plain[priority] if name is None else self._lane(name, priority)
        heap = lane.heaps[by_wall]
        heapq.heappush(heap, entry)
        if jobs.head(heap, by_wall) == entry:
            if lane.in_ring:
                heapq.heappush(self._oldest[priority][by_wall], (entry, lane))
            elif lane.key is None or not lane.key.parked:
                heapq.heappush(self._waking[by_wall], (entry, lane))

    def _lane(self, name: str, priority: int) -> Lane:
        key = self.key(name)
        lane = key.lanes.get(priority)
        if lane is None:
            lane = key.lanes[priority] = Lane(key, priority, ([], []))
        return lane

    def key(self, name: str) -> LimitKey:
        """The key of this name, created if missing."""
        key = self.keys.get(name)
        if key is None:
            key = self.keys[name] = LimitKey(name)
        return key

    def _enter(self, jobs: JobTable, lane: Lane) -> None:
        """The lane takes its turn after those that are in the ring."""
        if not lane.in_ring:
            lane.in_ring = True
            self._rings[lane.priority].append(lane)
        self._announce(jobs, lane, self._oldest[lane.priority])

    @staticmethod
    def _announce(jobs: JobTable, lane: Lane, heaps: LaneHeaps) -> None:
        """List the lane by its first jobs."""
        for by_wall in (False, True):
            entry = jobs.head(lane.heaps[by_wall], by_wall)
            if entry is not None:
                heapq.heappush(heaps[by_wall], (entry, lane))

    def wake(self, jobs: JobTable, limit: ClaimLimit, *, now: int, wall: int) -> None:
        """Lanes whose first job is due, and keys whose rate allows a claim, take their turns."""
        for by_wall, time in ((False, now), (True, wall)):
            waking = self._waking[by_wall]
            while waking and waking[0][0] >> BITS <= time:
                _, lane = heapq.heappop(waking)
                parked = lane.key is not None and lane.key.parked
                if lane.is_current and not lane.in_ring and not parked:
                    self._enter(jobs, lane)
        for ring in self._rings:
            while ring and ring[0].key is not None and _is_empty(jobs, ring[0]):
                self._leave(jobs, ring[0], limit)
        while self._returning and self._returning[0][0] <= now:
            key = self.keys.get(heapq.heappop(self._returning)[1])
            if key is not None:
                self.unpark(jobs, key)
                key.trim(limit.rate, now)
                self._drop_if_idle(key)

    # Limits of keys

    def unpark(self, jobs: JobTable, key: LimitKey) -> None:
        """The key may be below its limit: its lanes take their turns, and find out."""
        if key.parked:
            key.parked = False
            for lane in key.lanes.values():
                self._enter(jobs, lane)

    def limit_changed(self, jobs: JobTable, limit: ClaimLimit, at: int) -> None:
        for key in list(self.keys.values()):
            key.trim(limit.rate, at)
            self.unpark(jobs, key)
            self._drop_if_idle(key)

    def _is_parked(self, key: LimitKey | None, limit: ClaimLimit, now: int) -> bool:
        """Whether the key waits for its limit, from now on if it has just reached it."""
        if key is None:
            return False
        if not key.parked:
            at = key.free_at(limit, now)
            if at != FREE:
                key.parked = True
                if at is not None:
                    heapq.heappush(self._returning, (at, key.name))
        return key.parked

    def released(self, jobs: JobTable, name: str, limit: ClaimLimit) -> None:
        """A lease of this key has ended."""
        key = self.keys.get(name)
        if key is not None:
            key.in_flight -= 1
            self.unpark(jobs, key)
            self._drop_if_idle(key)
            if not key.lanes and not key.in_flight:
                self.remember(key, limit)

    def remember(self, key: LimitKey, limit: ClaimLimit) -> None:
        """Keep a key without jobs as long as its rate counts the latest claim."""
        if key.times and limit.rate is not None:
            heapq.heappush(self._returning, (key.times[-1] + limit.rate.per_ms, key.name))

    def _drop_if_idle(self, key: LimitKey) -> None:
        if not key.lanes and not key.in_flight and not key.times and not key.taken:
            self.keys.pop(key.name, None)

    # Claiming

    def longest_waiting(
        self, jobs: JobTable, priority: int, taken: Container[int], limit: ClaimLimit, *, now: int, wall: int
    ) -> tuple[int, int] | None:
        """How long the oldest job has been due whose lane may take its turn, and its offset."""
        found: tuple[int, int] | None = None
        for by_wall, time in ((False, now), (True, wall)):
            entry = self._first_in_ring(jobs, priority, taken, limit, by_wall=by_wall, now=now)
            if entry is not None and entry >> BITS <= time:
                waited = (time - (entry >> BITS), entry & MASK)
                if found is None or (-waited[0], waited[1]) < (-found[0], found[1]):
                    found = waited
        return found

    def _first_in_ring(
        self,
        jobs: JobTable,
        priority: int,
        taken: Container[int],
        limit: ClaimLimit,
        *,
        by_wall: bool,
        now: int,
    ) -> int | None:
        oldest = self._oldest[priority][by_wall]
        while oldest:
            entry, lane = oldest[0]
            if not lane.in_ring or self._is_parked(lane.key, limit, now):
                heapq.heappop(oldest)
                continue
            if entry & MASK not in taken and jobs.head([entry], by_wall) is not None:
                return entry
            heapq.heappop(oldest)
            head = jobs.head(lane.heaps[by_wall], by_wall)
            if head is not None and head != entry:
                heapq.heappush(oldest, (head, lane))  # Another job is the lane's first now.
        return None

    def take(
        self, jobs: JobTable, priority: int, taken: Container[int], limit: ClaimLimit, *, now: int, wall: int
    ) -> int | None:
        """The first job of the lane whose turn it is. It is in no heap from now on."""
        ring = self._rings[priority]
        while ring:
            lane = ring[0]
            if not self._is_parked(lane.key, limit, now):
                offset = self._pop(jobs, lane, taken, now=now, wall=wall)
                if offset is not None:
                    ring.rotate(-1)
                    if lane.key is not None:
                        lane.key.taken += 1
                    return offset
            self._leave(jobs, lane, limit)
        return None

    def _pop(self, jobs: JobTable, lane: Lane, taken: Container[int], *, now: int, wall: int) -> int | None:
        """Take the lane's job that has been due for longest."""
        chosen: tuple[int, int, bool] | None = None
        for by_wall, time in ((False, now), (True, wall)):
            heap = lane.heaps[by_wall]
            while (entry := jobs.head(heap, by_wall)) is not None and entry & MASK in taken:
                heapq.heappop(heap)  # Given up and requeued in one millisecond: it has two entries.
            if entry is not None and entry >> BITS <= time:
                rank = (-(time - (entry >> BITS)), entry & MASK, by_wall)
                if chosen is None or rank < chosen:
                    chosen = rank
        if chosen is None:
            return None
        heapq.heappop(lane.heaps[chosen[2]])
        self._announce(jobs, lane, self._oldest[lane.priority])
        return chosen[1]

    def _leave(self, jobs: JobTable, lane: Lane, limit: ClaimLimit) -> None:
        """The first lane leaves its ring: nothing in it is due, or its key is parked."""
        self._rings[lane.priority].popleft()
        lane.in_ring = False
        key = lane.key
        if key is None or not key.parked:
            self._announce(jobs, lane, self._waking)
        if key is not None and _is_empty(jobs, lane):
            del key.lanes[lane.priority]
            self._drop_if_idle(key)
            if not key.lanes and not key.in_flight:
                self.remember(key, limit)

    def next_due(self, jobs: JobTable, limit: ClaimLimit, *, lead_ms: int) -> int | None:
        """When a claim may find a job, in engine time."""
        times: list[int] = []
        for by_wall, ahead in ((False, 0), (True, lead_ms)):
            lanes = self._waking[by_wall]
            times += [(lanes[0][0] >> BITS) + ahead] if lanes else []
            for priority in range(PRIORITIES):
                entry = self._first_in_ring(jobs, priority, (), limit, by_wall=by_wall, now=jobs.flow.now)
                times += [(entry >> BITS) + ahead] if entry is not None else []
        if self._returning:
            times.append(self._returning[0][0])
        return min(times, default=None)


def _is_empty(jobs: JobTable, lane: Lane) -> bool:
    return jobs.head(lane.heaps[False], False) is None and jobs.head(lane.heaps[True], True) is None

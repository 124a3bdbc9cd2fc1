"""The waiting jobs of a queue whose jobs have limit keys: within a priority the keys take turns.

A key queue holds the waiting jobs of one key and one priority, in two heaps as a plain queue has them. Jobs
without a key share one. Key queues with a due job are in the ring of their priority; a claim takes the first
job of the first one and moves it to the end. Priorities are compared by the job that has waited longest in
each.

A key at its limit is parked: its key queues leave the ring when they come up, and return when a lease of the
key ends or its rate allows the next claim. So a claim costs a few heap operations, however many keys there
are.

None of this is in the log or in a snapshot: it is rebuilt from the jobs. Entries in the heaps may be stale;
they are dropped when they come up.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING

from driftq.core.jobs.limits import FREE, ClaimLimit, ClaimMeter
from driftq.core.jobs.queue import BITS, MASK, PRIORITIES, JobQueue

if TYPE_CHECKING:
    from collections.abc import Container

    from driftq.core.jobs.table import JobTable

Heaps = tuple[list[int], list[int]]
"""By engine time, and by the wall clock."""


class LimitKey(ClaimMeter):
    """One limit key of a queue."""

    __slots__ = ("key_queues", "name", "parked")

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.key_queues: dict[int, KeyQueue] = {}
        """By priority."""
        self.parked = False
        """At its limit."""


class KeyQueue:
    """The waiting jobs of one key and one priority."""

    __slots__ = ("heaps", "in_ring", "key", "priority")

    def __init__(self, key: LimitKey | None, priority: int, heaps: Heaps) -> None:
        self.key = key
        self.priority = priority
        self.heaps = heaps
        self.in_ring = False

    def __lt__(self, other: KeyQueue) -> bool:
        """Heaps of key queues are ordered by jobs; the order of the rest does not matter."""
        return id(self) < id(other)

    @property
    def is_current(self) -> bool:
        """Whether it has not been dropped as empty."""
        return self.key is None or self.key.key_queues.get(self.priority) is self


KeyQueueHeaps = tuple[list[tuple[int, KeyQueue]], list[tuple[int, KeyQueue]]]
"""Key queues by their first jobs."""


class KeyTurns:
    """The key queues of one queue."""

    def __init__(self, jobs: JobTable, queue: JobQueue) -> None:
        self.keys: dict[str, LimitKey] = {}
        self._plain = [
            KeyQueue(None, priority, (queue.heaps[priority], queue.wall_heaps[priority]))
            for priority in range(PRIORITIES)
        ]
        self._rings: list[deque[KeyQueue]] = [deque() for _ in range(PRIORITIES)]
        self._oldest: list[KeyQueueHeaps] = [([], []) for _ in range(PRIORITIES)]
        """For each priority the first jobs of the key queues in its ring."""
        self._waking: KeyQueueHeaps = ([], [])
        """The first jobs of the key queues outside the rings."""
        self._returning: list[tuple[int, str]] = []
        """Heap of when a rate allows a key its next claim, or no longer needs to know the key."""
        for key_queue in self._plain:
            self._enter(jobs, key_queue)

    # Waiting

    def place(self, jobs: JobTable, offset: int, entry: int, *, by_wall: bool) -> None:
        """A job waits from now on; its columns say so already."""
        priority = jobs.priorities[offset - jobs.base]
        name = jobs.flow.limit_keys.get(offset)
        key_queue = self._plain[priority] if name is None else self._key_queue(name, priority)
        heap = key_queue.heaps[by_wall]
        heapq.heappush(heap, entry)
        if jobs.head(heap, by_wall) == entry:
            if key_queue.in_ring:
                heapq.heappush(self._oldest[priority][by_wall], (entry, key_queue))
            elif key_queue.key is None or not key_queue.key.parked:
                heapq.heappush(self._waking[by_wall], (entry, key_queue))

    def _key_queue(self, name: str, priority: int) -> KeyQueue:
        key = self.key(name)
        key_queue = key.key_queues.get(priority)
        if key_queue is None:
            key_queue = key.key_queues[priority] = KeyQueue(key, priority, ([], []))
        return key_queue

    def key(self, name: str) -> LimitKey:
        """The key of this name, created if missing."""
        key = self.keys.get(name)
        if key is None:
            key = self.keys[name] = LimitKey(name)
        return key

    def _enter(self, jobs: JobTable, key_queue: KeyQueue) -> None:
        """The key queue takes its turn after those that are in the ring."""
        if not key_queue.in_ring:
            key_queue.in_ring = True
            self._rings[key_queue.priority].append(key_queue)
        self._announce(jobs, key_queue, self._oldest[key_queue.priority])

    @staticmethod
    def _announce(jobs: JobTable, key_queue: KeyQueue, heaps: KeyQueueHeaps) -> None:
        """List the key queue by its first jobs."""
        for by_wall in (False, True):
            entry = jobs.head(key_queue.heaps[by_wall], by_wall)
            if entry is not None:
                heapq.heappush(heaps[by_wall], (entry, key_queue))

    def wake(self, jobs: JobTable, limit: ClaimLimit, *, now: int, wall: int) -> None:
        """Key queues whose first job is due, and keys whose rate allows a claim, take their turns."""
        for by_wall, time in ((False, now), (True, wall)):
            waking = self._waking[by_wall]
            while waking and waking[0][0] >> BITS <= time:
                _, key_queue = heapq.heappop(waking)
                parked = key_queue.key is not None and key_queue.key.parked
                if key_queue.is_current and not key_queue.in_ring and not parked:
                    self._enter(jobs, key_queue)
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
        """The key may be below its limit: its key queues take their turns, and find out."""
        if key.parked:
            key.parked = False
            for key_queue in key.key_queues.values():
                self._enter(jobs, key_queue)

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
            if not key.key_queues and not key.in_flight:
                self.remember(key, limit)

    def remember(self, key: LimitKey, limit: ClaimLimit) -> None:
        """Keep a key without jobs as long as its rate counts the latest claim."""
        if key.times and limit.rate is not None:
            heapq.heappush(self._returning, (key.times[-1] + limit.rate.per_ms, key.name))

    def _drop_if_idle(self, key: LimitKey) -> None:
        if not key.key_queues and not key.in_flight and not key.times and not key.taken:
            self.keys.pop(key.name, None)

    # Claiming

    def priorities(self) -> list[int]:
        """Those in which a key queue may have a job that is due, once `wake` was called."""
        return [priority for priority, heaps in enumerate(self._oldest) if heaps[False] or heaps[True]]

    def longest_waiting(
        self, jobs: JobTable, priority: int, taken: Container[int], limit: ClaimLimit, *, now: int, wall: int
    ) -> tuple[int, int] | None:
        """How long the oldest job has been due whose key queue may take its turn, and its offset."""
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
            entry, key_queue = oldest[0]
            if not key_queue.in_ring or self._is_parked(key_queue.key, limit, now):
                heapq.heappop(oldest)
                continue
            if entry & MASK not in taken and jobs.head([entry], by_wall) is not None:
                return entry
            heapq.heappop(oldest)
            head = jobs.head(key_queue.heaps[by_wall], by_wall)
            if head is not None and head != entry:
                heapq.heappush(oldest, (head, key_queue))  # Another job is the key queue's first now.
        return None

    def take(
        self, jobs: JobTable, priority: int, taken: Container[int], limit: ClaimLimit, *, now: int, wall: int
    ) -> int | None:
        """The first job of the key queue whose turn it is. It is in no heap from now on."""
        ring = self._rings[priority]
        while ring:
            key_queue = ring[0]
            if not self._is_parked(key_queue.key, limit, now):
                offset = self._pop(jobs, key_queue, taken, now=now, wall=wall)
                if offset is not None:
                    ring.rotate(-1)
                    if key_queue.key is not None:
                        key_queue.key.taken += 1
                    return offset
            self._leave(jobs, key_queue, limit)
        return None

    def _pop(
        self, jobs: JobTable, key_queue: KeyQueue, taken: Container[int], *, now: int, wall: int
    ) -> int | None:
        """Take the key queue's job that has been due for longest."""
        chosen: tuple[int, int, bool] | None = None
        for by_wall, time in ((False, now), (True, wall)):
            heap = key_queue.heaps[by_wall]
            while (entry := jobs.head(heap, by_wall)) is not None and entry & MASK in taken:
                heapq.heappop(heap)  # Given up and requeued in one millisecond: it has two entries.
            if entry is not None and entry >> BITS <= time:
                rank = (-(time - (entry >> BITS)), entry & MASK, by_wall)
                if chosen is None or rank < chosen:
                    chosen = rank
        if chosen is None:
            return None
        heapq.heappop(key_queue.heaps[chosen[2]])
        self._announce(jobs, key_queue, self._oldest[key_queue.priority])
        return chosen[1]

    def _leave(self, jobs: JobTable, key_queue: KeyQueue, limit: ClaimLimit) -> None:
        """The first key queue leaves its ring: nothing in it is due, or its key is parked."""
        self._rings[key_queue.priority].popleft()
        key_queue.in_ring = False
        key = key_queue.key
        if key is None or not key.parked:
            self._announce(jobs, key_queue, self._waking)
        if key is not None and _is_empty(jobs, key_queue):
            del key.key_queues[key_queue.priority]
            self._drop_if_idle(key)
            if not key.key_queues and not key.in_flight:
                self.remember(key, limit)

    def next_due(self, jobs: JobTable, limit: ClaimLimit, *, lead_ms: int) -> int | None:
        """When a claim may find a job, in engine time."""
        times: list[int] = []
        for by_wall, ahead in ((False, 0), (True, lead_ms)):
            key_queues = self._waking[by_wall]
            times += [(key_queues[0][0] >> BITS) + ahead] if key_queues else []
            for priority in range(PRIORITIES):
                entry = self._first_in_ring(jobs, priority, (), limit, by_wall=by_wall, now=jobs.flow.now)
                times += [(entry >> BITS) + ahead] if entry is not None else []
        if self._returning:
            times.append(self._returning[0][0])
        return min(times, default=None)


def _is_empty(jobs: JobTable, key_queue: KeyQueue) -> bool:
    return jobs.head(key_queue.heaps[False], False) is None and jobs.head(key_queue.heaps[True], True) is None

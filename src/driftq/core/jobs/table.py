"""All jobs in the broker's memory, in columns: a few bytes for each, and objects only for those in flight.

A waiting job has a due time and an entry in a heap of its queue and priority. Whether it is ready or
scheduled depends on the time and is no state of its own. A heap may hold stale entries; they are skipped when
they reach the top.

There are two kinds of due times, and they are never compared with each other: a `run_at` is an instant of the
wall clock, a retry is due in engine time, and so is a job that was due at once. Each kind has its own heaps;
the kinds are compared by how long a job has been due.
"""

import heapq
import re
from array import array
from collections import deque
from collections.abc import Container, Iterator
from enum import IntEnum

import msgspec

from driftq.core.fingerprints import FingerprintTable
from driftq.core.jobs.dependencies import Dependencies
from driftq.core.jobs.ended_run import EndedRun
from driftq.core.jobs.flow import FlowControl, choose_jobs
from driftq.core.jobs.queue import AGE_STEP_MS, BITS, MASK, JobQueue
from driftq.core.jobs.records import JobTerms
from driftq.core.jobs.retries import RetryTimings
from driftq.model.job import RetryTiming

JOBS_TOPIC = "~jobs"
KEY_TTL_MS = 604_800_000
_KEPT_MS = 30 * 86_400_000
_RECENT = 10_000
_RECENT_BYTES = 64 << 20
_NAME = re.compile(r"job-(0|[1-9][0-9]{0,12})")


def job_id(offset: int) -> str:
    """The public name of a job: it has the offset of its payload in the topic of jobs."""
    return f"job-{offset}"


def job_offset(name: str) -> int | None:
    """The offset of a public name; None when it is not a job's name."""
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


class JobState(IntEnum):
    """A job's state in the log; the wire splits WAITING into `ready` and `scheduled`."""

    WAITING = 1
    IN_FLIGHT = 2
    SUCCEEDED = 3
    DEAD = 4
    BLOCKED = 5
    """It waits for other jobs."""


class JobGrant(msgspec.Struct, gc=False):
    """A job under lease."""

    owner: str
    token: int
    lease_ms: int
    lease_until: int
    times_out_at: int
    """When its execution times out despite heartbeats; 0 is never."""
    claimed_at: int

    def ends_at(self) -> int:
        return min(self.lease_until, self.times_out_at) if self.times_out_at else self.lease_until


class JobTable:
    """The fold of the job records."""

    def __init__(self, *, kept_ms: int = _KEPT_MS) -> None:
        self._kept_ms = kept_ms
        """How long a result is kept."""
        self.base = 0
        """Offset of the first job in the columns."""
        self.states = bytearray()
        self.priorities = bytearray()
        self.queue_numbers = array("I")
        self.attempts = array("I")
        self.max_retries = array("I")
        self.due = array("Q")
        self.by_wall = bytearray()
        """1 where the due time is an instant of the wall clock."""
        self.timeouts = array("Q")
        self.retries = RetryTimings()
        self.queues: dict[str, JobQueue] = {}
        self.queue_names: list[str] = []
        self.grants: dict[int, JobGrant] = {}
        self.histories: dict[int, list[EndedRun]] = {}
        self.results: dict[int, str | None] = {}
        self.errors: dict[int, str] = {}
        self.completed_tokens: dict[int, int] = {}
        self.keys = FingerprintTable()
        self.prints: dict[int, int] = {}
        self.next_token = 1
        self.ends: list[int] = []
        """Heap of when grants may end."""
        self.recent: deque[int] = deque()
        self.recent_bytes = 0
        self._done_upto = 0
        self.leaving: deque[tuple[int, int]] = deque()
        self.ended_at: dict[int, int] = {}
        """When each job with a key ended, as long as its key is live."""
        self.awaited: Container[int] = ()
        """Jobs whose end is awaited; not a part of the fold."""
        self.awaited_ends: list[int] = []
        """Those of them that have ended since they were last taken."""
        self.flow = FlowControl()
        self.dependencies = Dependencies()

    # Looking

    def slot(self, offset: int) -> int | None:
        """The column of a job; None when the job is no longer in memory."""
        slot = offset - self.base
        return slot if 0 <= slot < len(self.states) and self.states[slot] else None

    def state(self, offset: int) -> JobState | None:
        slot = self.slot(offset)
        return JobState(self.states[slot]) if slot is not None else None

    def state_name(self, offset: int, *, now: int, wall: int) -> str | None:
        """The state as users see it: a waiting job is ready or scheduled."""
        state = self.state(offset)
        if state is JobState.WAITING:
            slot = offset - self.base
            return "scheduled" if self.due[slot] > (wall if self.by_wall[slot] else now) else "ready"
        return state.name.lower() if state is not None else None

    def queue_of(self, offset: int) -> str:
        return self.queue_names[self.queue_numbers[offset - self.base]]

    def offsets(
        self, *, queue: str | None = None, state: JobState | None = None, start: int = 0
    ) -> Iterator[int]:
        """Jobs that are kept, oldest first, from an offset on: all, or those of a queue, or in a state."""
        if queue is not None and queue not in self.queues:
            return
        number = self.queues[queue].number if queue is not None else None
        slot = max(start - self.base, 0)
        while slot < len(self.states):
            if state is not None:
                slot = self.states.find(state, slot)
                if slot < 0:
                    return
            if number is not None and self.queue_numbers[slot] != number:
                try:
                    slot = self.queue_numbers.index(number, slot)
                except ValueError:
                    return
                continue
            if self.states[slot]:
                yield self.base + slot
            slot += 1

    def best(self, names: list[str], *, limit: int, now: int, wall: int) -> list[int]:
        """The next jobs to claim: by priority and age, then due time, then order of enqueueing."""
        if self.flow.queues and not self.flow.queues.keys().isdisjoint(names):
            return choose_jobs(self, names, limit=limit, now=now, wall=wall)
        heaps = self._heaps(names, now=now, wall=wall)
        taken: dict[int, None] = {}
        popped: list[tuple[list[int], int]] = []
        while len(taken) < limit:
            chosen: tuple[tuple[int, int, int], list[int]] | None = None
            for priority, heap, by_wall, time in heaps:
                head = self.head(heap, by_wall)
                while head is not None and head & MASK in taken:
                    heapq.heappop(heap)  # Given up and requeued in one millisecond: it has two entries.
                    head = self.head(heap, by_wall)
                if head is None or head >> BITS > time:
                    continue
                waited, offset = time - (head >> BITS), head & MASK
                rank = (-(priority + waited // AGE_STEP_MS), -waited, offset)
                if chosen is None or rank < chosen[0]:
                    chosen = (rank, heap)
            if chosen is None:
                break
            entry = heapq.heappop(chosen[1])
            popped.append((chosen[1], entry))
            taken[entry & MASK] = None
        for heap, entry in popped:
            heapq.heappush(heap, entry)  # They leave when the claim is recorded.
        return list(taken)

    def _heaps(self, names: list[str], *, now: int, wall: int) -> list[tuple[int, list[int], int, int]]:
        """The heaps with waiting jobs: priority, heap, whether it is by the wall clock, and the time."""
        found: list[tuple[int, list[int], int, int]] = []
        for name in names:
            queue = self.queues.get(name)
            if queue is not None:
                found += [(number, heap, 0, now) for number, heap in enumerate(queue.heaps) if heap]
                found += [(number, heap, 1, wall) for number, heap in enumerate(queue.wall_heaps) if heap]
        return found

    def head(self, heap: list[int], by_wall: int) -> int | None:
        """The first entry that is not stale."""
        while heap:
            offset = heap[0] & MASK
            slot = self.slot(offset)
            if (
                slot is not None
                and self.states[slot] == JobState.WAITING
                and self.due[slot] == heap[0] >> BITS
                and self.by_wall[slot] == by_wall
            ):
                return heap[0]
            heapq.heappop(heap)
        return None

    def next_due(self, name: str, *, lead_ms: int) -> int | None:
        """When the next job of a queue may be claimed, in engine time; `lead_ms`: it is ahead of the wall."""
        queue = self.queues.get(name)
        if queue is None:
            return None
        times = [head >> BITS for heap in queue.heaps if (head := self.head(heap, 0)) is not None]
        times += [
            (head >> BITS) + lead_ms for heap in queue.wall_heaps if (head := self.head(heap, 1)) is not None
        ]
        due = min(times, default=None)
        return self.flow.next_due(self, name, due, lead_ms=lead_ms) if name in self.flow.queues else due

    def next_end(self) -> int | None:
        """When the next grant may end."""
        while self.ends:
            at, offset = self.ends[0] >> BITS, self.ends[0] & MASK
            grant = self.grants.get(offset)
            if grant is not None and grant.ends_at() == at:
                return at
            heapq.heappop(self.ends)
        return None

    def ended(self, now: int) -> list[int]:
        """Jobs whose lease or execution time is over."""
        over: list[int] = []
        at = self.next_end()
        while at is not None and at <= now:
            over.append(heapq.heappop(self.ends) & MASK)
            at = self.next_end()
        for offset in over:
            heapq.heappush(self.ends, self.grants[offset].ends_at() << BITS | offset)
        return over

    def first_needed(self) -> int:
        """The oldest job still needed: it waits, runs, or is dead and may be requeued."""
        while self._done_upto < len(self.states):
            is_done = self.states[self._done_upto] in (0, JobState.SUCCEEDED)
            if not is_done or self.base + self._done_upto in self.prints:
                break  # A live key needs its job's payload.
            self._done_upto += 1
        return self.base + self._done_upto

    # Changing

    def drop_below(self, offset: int) -> None:
        """Drop jobs that are no longer needed; their payloads are no longer stored."""
        count = min(offset - self.base, len(self.states))
        if count <= 0:
            return
        del self.states[:count], self.priorities[:count], self.queue_numbers[:count], self.attempts[:count]
        del self.max_retries[:count], self.due[:count], self.timeouts[:count], self.by_wall[:count]
        self.retries.drop(count)
        self.base += count
        self._done_upto = max(0, self._done_upto - count)
        kept = (self.results, self.errors, self.completed_tokens, self.histories, self.flow.limit_keys)
        for known in kept:
            for old in [one for one in known if one < self.base]:
                del known[old]

    def add(self, terms: JobTerms, at: int) -> None:
        if not self.states:
            self.base = terms.offset
        while self.base + len(self.states) < terms.offset:
            self._append(0, 0, 0, 0, 0, None)  # An offset that is no job of ours.
        number = self.queue(terms.queue).number
        self._append(
            JobState.WAITING, terms.priority, number, terms.max_retries, terms.timeout_ms, terms.retry
        )
        if terms.fingerprint:
            self.keys.add(terms.fingerprint, terms.offset)
            self.prints[terms.offset] = terms.fingerprint
        if terms.limit_key:
            self.flow.set_key(self, terms.offset, queue=self.queue(terms.queue), key=terms.limit_key)
        if terms.after and self._block(terms, at):
            return
        if is_by_wall(terms, at=at):
            self.wait(terms.offset, terms.run_at, by_wall=True)
        else:
            self.wait(terms.offset, at)

    def _block(self, terms: JobTerms, at: int) -> bool:
        """Let a new job wait for others; False when all of them have succeeded."""
        states = {offset: self.state(offset) for offset in terms.after}
        unmet = [offset for offset, state in states.items() if state is not JobState.SUCCEEDED]
        if unmet:
            slot = terms.offset - self.base
            self.states[slot], self.by_wall[slot] = JobState.BLOCKED, is_by_wall(terms, at=at)
            self.due[slot] = terms.run_at if self.by_wall[slot] else at
            dead = [offset for offset in unmet if states[offset] is JobState.DEAD]
            self.dependencies.block(terms.offset, unmet, dead=dead[0] if dead else None)
        return bool(unmet)

    def queue(self, name: str) -> JobQueue:
        """The queue of this name, created if missing."""
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = JobQueue(name, len(self.queue_names))
            self.queue_names.append(name)
        return queue

    def _append(
        self, state: int, priority: int, queue: int, retries: int, timeout_ms: int, retry: RetryTiming | None
    ) -> None:
        self.states.append(state)
        self.priorities.append(priority)
        self.queue_numbers.append(queue)
        self.attempts.append(0)
        self.max_retries.append(retries)
        self.due.append(0)
        self.by_wall.append(0)
        self.timeouts.append(timeout_ms)
        self.retries.numbers.append(self.retries.number_of[retry])

    def wait(self, offset: int, due_at: int, *, by_wall: bool = False) -> None:
        """The job is due in engine time, or at an instant of the wall clock."""
        slot = offset - self.base
        self.ended_at.pop(offset, None)
        self.states[slot] = JobState.WAITING
        self.due[slot] = due_at
        self.by_wall[slot] = by_wall
        self.push(offset, due_at, by_wall=by_wall)

    def push(self, offset: int, due_at: int, *, by_wall: bool) -> None:
        """Enter a waiting job where claims find it."""
        queue, entry = self.queues[self.queue_of(offset)], due_at << BITS | offset
        if self.flow.queues and self.flow.place(self, queue, offset, entry, by_wall=by_wall):
            return
        heaps = queue.wall_heaps if by_wall else queue.heaps
        heapq.heappush(heaps[self.priorities[offset - self.base]], entry)

    def hold(self, offset: int, grant: JobGrant) -> None:
        self.grants[offset] = grant
        heapq.heappush(self.ends, grant.ends_at() << BITS | offset)
        if len(self.ends) > 64 and len(self.ends) > 4 * len(self.grants):
            self.ends = [grant.ends_at() << BITS | offset for offset, grant in self.grants.items()]
            heapq.heapify(self.ends)

    def finish(self, offset: int, state: JobState, *, at: int) -> None:
        """The job has ended; its key stays for its time to live, its result while it is recent."""
        self.states[offset - self.base] = state
        if offset in self.awaited:
            self.awaited_ends.append(offset)
        if offset in self.prints:
            self.ended_at[offset] = at
            self.leaving.append((at + KEY_TTL_MS, offset))
        if self.dependencies.children or self.dependencies.unmet:
            self.dependencies.ended(offset, succeeded=state is JobState.SUCCEEDED)
        if state is JobState.SUCCEEDED:
            self.flow.limit_keys.pop(offset, None)
            self.recent.append(offset)
            self.recent_bytes += len(self.results.get(offset) or "")
            while len(self.recent) > _RECENT or self.recent_bytes > _RECENT_BYTES:
                self._evict_oldest()

    def _evict_oldest(self) -> None:
        """The history has its runs and its result."""
        old = self.recent.popleft()
        self.recent_bytes -= len(self.results.pop(old, None) or "")
        self.histories.pop(old, None)
        self.completed_tokens.pop(old, None)

    def _ended_before(self, offset: int, at: int) -> bool:
        runs = self.histories.get(offset)
        return runs is None or runs[-1].ended_at <= at

    def expire(self, now: int) -> None:
        """Drop the results of jobs that ended long ago, and their keys."""
        while self.recent and self._ended_before(self.recent[0], now - self._kept_ms):
            self._evict_oldest()
        while self.leaving and self.leaving[0][0] <= now:
            at, offset = self.leaving.popleft()
            if self.ended_at.get(offset) != at - KEY_TTL_MS:
                continue  # It was requeued, and has not ended yet or ended later.
            del self.ended_at[offset]
            self.keys.remove(self.prints.pop(offset), offset)


def is_by_wall(terms: JobTerms, *, at: int) -> bool:
    """Whether the wall clock decides when a job is due; `at` is the time of its record."""
    return terms.by_wall or terms.run_at > at

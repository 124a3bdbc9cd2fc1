"""The engine's loop and threads in virtual time: one seed decides what finishes when, and in which order.

A commit does what the writer thread does, one step at a time, so that a crash may fall between any two. A
frame is written by a write that syncs itself, or by a write and a sync, as on a system without such writes.
Calls made with `soon` keep their order, as on a real loop; what is timed for the same instant does not.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import TypeVar

from driftq.errors import LogError
from driftq.log.frame import Frame
from driftq.log.log import Log
from driftq.server.io_threads import CommitPlace, write_durably
from driftq.storage.payloads import EntriesGone
from driftq.testing.clock import VirtualClock

_T = TypeVar("_T")


class _Timed:
    """A call at an instant; it can be cancelled until then."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class SimLoop:
    """Runs calls in the order of virtual time."""

    def __init__(self, clock: VirtualClock, random: Random) -> None:
        self._clock = clock
        self._random = random
        self._soon: deque[Callable[[], None]] = deque()
        self._timed: list[tuple[int, float, int, _Timed]] = []
        self._serial = count()
        self.calls = 0
        """The number of calls so far; a busy loop shows here."""

    def soon(self, call: Callable[[], None]) -> None:
        self._soon.append(call)

    def at(self, when: int, call: Callable[[], None]) -> _Timed:
        timed = _Timed(call)
        heapq.heappush(self._timed, (when, self._random.random(), next(self._serial), timed))
        return timed

    def run_for(self, ms: int) -> None:
        """Run everything that happens in this time."""
        self.run_until(self._clock.now() + ms)

    def run_until(self, when: int) -> None:
        while call := self._next(when):
            self.calls += 1
            call()
        self._clock.advance_to(when)

    def _next(self, until: int) -> Callable[[], None] | None:
        while self._timed and (self._timed[0][3].call is None):
            heapq.heappop(self._timed)
        if self._soon and not (self._timed and self._timed[0][0] <= self._clock.now() and self._toss()):
            return self._soon.popleft()
        if self._timed and self._timed[0][0] <= until:
            when, _, _, timed = heapq.heappop(self._timed)
            self._clock.advance_to(when)
            return timed.call
        return None

    def _toss(self) -> bool:
        return self._random.random() < 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The longest that each step of the disk may take, in milliseconds."""

    write_ms: int = 2
    sync_ms: int = 8
    read_ms: int = 12


class SimBackground:
    """The writer and the reader thread on a `SimLoop`."""

    def __init__(
        self,
        log: Log,
        loop: SimLoop,
        clock: VirtualClock,
        random: Random,
        *,
        latency: Latency,
        fsync: bool,
        quick_disk: bool,
    ) -> None:
        self._log = log
        self._loop = loop
        self._clock = clock
        self._random = random
        self._latency = latency
        self._fsync = fsync
        self._place = CommitPlace(log, syncs=fsync and quick_disk, now=lambda: clock.now() / 1000)
        self._stepping = False
        self.committing = False
        """Whether frames are on their way to the disk."""

    def commit(self, frames: Sequence[Frame], done: Callable[[OSError | None], None]) -> None:
        steps: deque[tuple[int, Callable[[], None]]] = deque()
        for frame in frames:
            if self._fsync and self._random.random() < 0.7:
                steps.append((self._latency.sync_ms, partial(self._log.write_durably, frame)))
                continue
            steps.append((self._latency.write_ms, partial(self._log.write, frame)))
            if self._fsync:
                steps.append((self._latency.sync_ms, self._log.sync))
        steps.append((0, self._log.confirm))
        self.committing = True
        self._place.queued += 1
        self._go_on(steps, done)

    @property
    def may_commit_here(self) -> bool:
        return self._place.is_quick

    def commits_here(self, frames: Sequence[Frame]) -> bool:
        return self._place.is_here(frames)

    def commit_here(self, frames: Sequence[Frame]) -> OSError | None:
        error = write_durably(self._log, frames)
        took_ms = self._random.choice((0, 0, min(1, self._latency.sync_ms), self._latency.sync_ms))
        self._clock.advance(ms=took_ms)
        self._place.took(took_ms / 1000)
        return error

    def _go_on(
        self, steps: deque[tuple[int, Callable[[], None]]], done: Callable[[OSError | None], None]
    ) -> None:
        if not steps:
            self._end(done, None)
            return
        latency_ms, step = steps.popleft()

        def run() -> None:
            try:
                step()
            except OSError as error:
                self._end(done, error)
            except LogError as error:
                self._end(done, OSError(str(error)))
            else:
                self._go_on(steps, done)

        self._after(latency_ms, run)

    def _end(self, done: Callable[[OSError | None], None], error: OSError | None) -> None:
        def finish() -> None:
            self.committing = False
            self._place.queued -= 1
            done(error)

        self._loop.soon(finish)

    def read(self, work: Callable[[], _T], done: Callable[[_T | Exception], None]) -> None:
        def run() -> None:
            result: _T | Exception
            try:
                result = work()
            except (OSError, LogError, EntriesGone) as error:
                result = error
            self._after(self._latency.read_ms, lambda: done(result))

        self._after(self._latency.read_ms, run)

    def repeat(self, step: Callable[[], bool]) -> None:
        if not self._stepping:
            self._stepping = True
            self._after(self._latency.sync_ms, lambda: self._step(step))

    def _step(self, step: Callable[[], bool]) -> None:
        try:
            more = step()
        except OSError:
            more = False
        self._stepping = False
        if more:
            self.repeat(step)

    def stop(self) -> None:
        """Nothing to end: there are no threads."""

    def _after(self, latency_ms: int, call: Callable[[], None]) -> None:
        self._loop.at(self._clock.now() + self._random.randint(0, latency_ms), call)

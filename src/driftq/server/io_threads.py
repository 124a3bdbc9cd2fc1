"""The engine's surroundings in a real process: its loop, the writer thread, the reader thread.

A commit is written on the loop's own thread while the disk is quick, else on the writer thread. The way to
the writer thread and back costs two wake-ups and waits for the interpreter lock; a quick disk has synced by
then. A slow one would keep the loop from its sockets, so it gets the thread, and the next requests are read
meanwhile.

The loop writes when nothing waits for the writer thread, when the commit is small, and when it needs no new
segment. When the disk turns out to be slow, commits go to the thread for a while; then the loop tries once
more. A single commit that takes long says nothing about the disk: on a busy machine the loop may have waited
for a processor. So the best of several commits counts, or two bad ones in a row. Only the loop's are timed,
because the thread's times include waiting for the interpreter lock.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from enum import StrEnum
from queue import SimpleQueue
from typing import TypeVar

from driftq.errors import LogError
from driftq.log.frame import Frame
from driftq.log.log import Log
from driftq.server.ports import Alarm, Clock, SyncLost

_T = TypeVar("_T")


class Fsync(StrEnum):
    """When the log is forced to the disk."""

    ALWAYS = "always"
    """Before every reply."""
    INTERVAL = "interval"
    """Every 50 ms: a power cut may lose that much."""
    OFF = "off"
    """When the operating system decides."""


SYNC_INTERVAL_S = 0.05
QUICK_S = 0.0005
"""The loop goes on writing while the best of the last commits takes no longer."""
RECENT = 8
"""How many of the last commits count."""
SLOW_S = 0.002
"""Two commits in a row that take longer are enough."""
AWAY_S = 10.0
"""How long the thread writes then."""
BYTES_MAX = 256 * 1024
"""Larger commits take a disk longer, and the wake-ups are nothing beside their work."""
STEP_PAUSE_S = 0.005
"""Between two steps of leisurely work: zeros for the next segment go out at 50 MB/s at most."""

logger = logging.getLogger("driftq.engine")


class AsyncioLoop:
    """The engine's view of an asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock) -> None:
        self._loop = loop
        self._clock = clock

    def soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def at(self, when: int, call: Callable[[], None]) -> Alarm:
        return self._loop.call_later(max(0, when - self._clock.now()) / 1000, call)


class CommitPlace:
    """Chooses the place of each commit, and writes those of the loop."""

    __slots__ = ("_away_until", "_log", "_now", "_recent", "_syncs", "queued")

    def __init__(self, log: Log, *, syncs: bool, now: Callable[[], float] = time.perf_counter) -> None:
        self._log = log
        self._syncs = syncs
        """Whether each commit is synced. Else a sync may run in the thread at any time."""
        self._now = now
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._away_until = now()
        self.queued = 0
        """Commits that the writer thread has not finished. Counted on the loop."""

    @property
    def is_quick(self) -> bool:
        """Whether the loop writes small commits."""
        return self._syncs and self._now() >= self._away_until

    def is_here(self, frames: Sequence[Frame]) -> bool:
        """Whether the loop may write these frames now."""
        last = frames[-1]
        if self.queued or not self._syncs or last.segment != self._log.segment:
            return False
        size = last.size if len(frames) == 1 else sum([frame.size for frame in frames])
        return size <= BYTES_MAX and self._now() >= self._away_until

    def commit(self, frames: Sequence[Frame]) -> OSError | None:
        """Write the frames on the loop; returns when they are durable, or with the error that stopped it."""
        began = self._now()
        error = write_durably(self._log, frames)
        self.took(self._now() - began)
        return error

    def took(self, seconds: float) -> None:
        """A commit on the loop is over."""
        recent = self._recent
        before = recent[-1] if recent else 0.0
        recent.append(seconds)
        if seconds <= QUICK_S:
            return
        if min(before, seconds) > SLOW_S or (len(recent) == RECENT and min(recent) > QUICK_S):
            self._away_until = self._now() + AWAY_S


def write_durably(log: Log, frames: Sequence[Frame]) -> OSError | None:
    """One frame after the other, the next only when the one before is durable; then confirm them."""
    try:
        for frame in frames:
            log.write_durably(frame)
        log.confirm()
    except OSError as error:
        return error
    except LogError as error:
        return OSError(str(error))
    return None


class Threads:
    """One thread that writes, one that reads what the page cache does not hold, one that works at leisure."""

    def __init__(self, log: Log, loop: asyncio.AbstractEventLoop, *, fsync: Fsync) -> None:
        self._log = log
        self._loop = loop
        self._fsync = fsync
        self._place = CommitPlace(log, syncs=fsync is Fsync.ALWAYS)
        self.commits_here = self._place.is_here
        self._writes: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._reads: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._steps: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._stepping = False
        self._stopping = threading.Event()
        self._sync_due: asyncio.TimerHandle | None = None
        self._sync_lost: SyncLost | None = None
        self._threads = [
            threading.Thread(target=_work, args=(queue,), name=name, daemon=True)
            for queue, name in (
                (self._writes, "driftq-writer"),
                (self._reads, "driftq-reader"),
                (self._steps, "driftq-leisure"),
            )
        ]
        for thread in self._threads:
            thread.start()

    def commit(self, frames: Sequence[Frame], done: Callable[[OSError | None], None]) -> None:
        def finish(error: OSError | None) -> None:
            self._place.queued -= 1
            done(error)

        self._place.queued += 1
        self._writes.put(lambda: self._finish(finish, self._write(frames)))

    @property
    def may_commit_here(self) -> bool:
        return self._place.is_quick

    def commit_here(self, frames: Sequence[Frame]) -> OSError | None:
        return self._place.commit(frames)

    def _write(self, frames: Sequence[Frame]) -> OSError | None:
        if self._fsync is Fsync.ALWAYS:
            return write_durably(self._log, frames)
        try:
            if self._sync_lost is not None:
                return self._sync_lost
            for frame in frames:
                self._log.write(frame)
            self._log.confirm()
        except (OSError, LogError) as error:
            return error if isinstance(error, OSError) else OSError(str(error))
        if self._fsync is Fsync.INTERVAL:
            self._loop.call_soon_threadsafe(self._want_sync)
        return None

    def _want_sync(self) -> None:
        if self._sync_due is None:
            self._sync_due = self._loop.call_later(SYNC_INTERVAL_S, self._sync_later)

    def _sync_later(self) -> None:
        self._sync_due = None
        self._writes.put(self._sync)

    def _sync(self) -> None:
        try:
            self._log.sync()
        except OSError as error:
            self._sync_lost = SyncLost(error.errno, f"confirmed messages could not be synced: {error}")

    def read(self, work: Callable[[], _T], done: Callable[[_T | Exception], None]) -> None:
        def run() -> None:
            result: _T | Exception
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 (the caller gets it)
                result = error
            self._finish(done, result)

        self._reads.put(run)

    def repeat(self, step: Callable[[], bool]) -> None:
        if not self._stepping:
            self._stepping = True
            self._steps.put(lambda: self._repeat(step))

    def _repeat(self, step: Callable[[], bool]) -> None:
        try:
            while not self._stopping.is_set() and step():
                self._stopping.wait(STEP_PAUSE_S)
        except OSError as error:
            logger.warning("zeros could not be written ahead of the log: %s", error)
        finally:
            self._stepping = False

    def _finish(self, done: Callable[[_T], None], result: _T) -> None:
        try:
            self._loop.call_soon_threadsafe(done, result)
        except RuntimeError:
            pass  # The loop is closed, so nothing waits for this.

    def call_soon(self, call: Callable[[], None]) -> None:
        """Call on the loop, from any thread."""
        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            pass  # The loop is closed, so nothing waits for this.

    def stop(self) -> None:
        """Finish the queued work, sync, end the threads."""
        if self._fsync is not Fsync.ALWAYS:
            self._writes.put(self._sync)
        self._stopping.set()
        for queue, thread in zip((self._writes, self._reads, self._steps), self._threads, strict=True):
            queue.put(None)
            thread.join()


def _work(queue: "SimpleQueue[Callable[[], None] | None]") -> None:
    while (job := queue.get()) is not None:
        job()

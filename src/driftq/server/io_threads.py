"""The engine's surroundings in a real process: its loop, the writer thread, the reader thread.

`commit_place.py` says which commits the loop writes itself.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from queue import SimpleQueue
from typing import TypeVar

from driftq.errors import LogError
from driftq.log.frame import Frame
from driftq.log.log import Log
from driftq.server.commit_place import CommitPlace, write_durably
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


class Threads:
    """One thread that writes, one that reads what the page cache does not hold, one that works at leisure."""

    def __init__(self, log: Log, loop: asyncio.AbstractEventLoop, *, fsync: Fsync) -> None:
        self._log = log
        self._loop = loop
        self._fsync = fsync
        self._place = CommitPlace(log, syncs=fsync is Fsync.ALWAYS)
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

    def commits_here(self, frames: Sequence[Frame]) -> bool:
        return self._place.is_here(frames)

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

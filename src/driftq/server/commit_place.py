"""Where a commit is written: on the loop's own thread while the disk is quick, else on the writer thread.

The way to the writer thread and back costs two wake-ups and waits for the interpreter lock. A quick disk has
synced by then. A slow one would keep the loop from its sockets, so it gets the thread, and the next requests
are read meanwhile.

The loop writes when nothing waits for the writer thread, when the commit is small, and when it needs no new
segment. When the disk turns out to be slow, commits go to the thread for a while; then the loop tries once
more. A single commit that takes long says nothing about the disk: on a busy machine the loop may have waited
for a processor. So the best of several commits counts, or two bad ones in a row. Only the loop's are timed,
because the thread's times include waiting for the interpreter lock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from driftq.errors import LogError
from driftq.log.frame import Frame
from driftq.log.log import Log

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
        if self.queued or not self.is_quick or frames[-1].segment != self._log.segment:
            return False
        return sum([frame.size for frame in frames]) <= BYTES_MAX

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

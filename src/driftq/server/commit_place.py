"""Where a commit is written: on the loop's own thread while the disk is quick, else on the writer thread.

The way to the writer thread and back costs two wake-ups and waits for the interpreter lock. A quick disk has
synced by then. A slow one would keep the loop from its sockets, so it gets the thread, and the next requests
are read meanwhile.

The loop writes when nothing waits for the writer thread, when the commit is small, and when it needs no new
segment. One slow commit, or a few that are not quick, send commits to the thread for a while; then the loop
tries once more. Only the loop's are timed: the thread's times include waiting for the interpreter lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from driftq.errors import LogError
from driftq.log.frame import Frame
from driftq.log.log import Log

QUICK_S = 0.0005
"""The loop goes on writing while a commit takes less than this on average."""
AWAY_S = 10.0
"""How long the thread writes when it takes more."""
SLOW_S = 0.002
"""A single commit that takes longer sends the next ones to the thread, for a time that is in proportion."""
AWAY_TIMES = 50
"""Slow commits hold the loop for no more than 2 % of the time, and a hiccup of the machine costs little."""
BYTES_MAX = 256 * 1024
"""Larger commits take a disk longer, and the wake-ups are nothing beside their work."""

_WEIGHT = 1 / 32


class CommitPlace:
    """Chooses the place of each commit, and writes those of the loop."""

    __slots__ = ("_average_s", "_away_until", "_log", "_now", "_syncs", "queued")

    def __init__(self, log: Log, *, syncs: bool, now: Callable[[], float] = time.perf_counter) -> None:
        self._log = log
        self._syncs = syncs
        """Whether each commit is synced. Else a sync may run in the thread at any time."""
        self._now = now
        self._average_s = 0.0
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
        average_s = self._average_s + (min(seconds, SLOW_S) - self._average_s) * _WEIGHT
        if average_s > QUICK_S:
            self._away_until = self._now() + AWAY_S
        elif seconds > SLOW_S:
            self._away_until = self._now() + min(AWAY_TIMES * seconds, AWAY_S)
        self._average_s = min(average_s, QUICK_S)


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

"""When the engine runs a turn without a request, and for how long it runs none."""

from __future__ import annotations

from collections.abc import Callable

from driftq.model.backoff import doubled
from driftq.server.ports import Alarm, Loop

QUIET_MS = 100
QUIET_MS_MAX = 5_000


class Wakeup:
    """One alarm, which can be set to another time."""

    __slots__ = ("_alarm", "_at", "_loop", "_wake")

    def __init__(self, loop: Loop, wake: Callable[[], None]) -> None:
        self._loop = loop
        self._wake = wake
        self._alarm: Alarm | None = None
        self._at: int | None = None

    def set(self, at: int | None) -> None:
        """Wake at this time and at no other; None: not at all."""
        if at == self._at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._at = at
        self._alarm = self._loop.at(at, self._fired) if at is not None else None

    def _fired(self) -> None:
        self._alarm = None
        self._at = None
        self._wake()


class CommitBackoff:
    """Consecutive failed commits: each lengthens the pause before the next try."""

    __slots__ = ("_failures", "quiet_until")

    def __init__(self) -> None:
        self._failures = 0
        self.quiet_until = 0
        """The engine starts nothing on its own before this time."""

    def failed(self, now: int) -> None:
        self.quiet_until = now + doubled(QUIET_MS, self._failures, cap=QUIET_MS_MAX)
        self._failures += 1

    def over(self) -> None:
        """A commit succeeded."""
        self._failures = self.quiet_until = 0

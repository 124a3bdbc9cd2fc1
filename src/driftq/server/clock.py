"""The server's clock: the wall clock at start plus what has passed since, never behind the log."""

import time


class SystemClock:
    """A wall clock that is read once: later jumps of the machine's clock move nothing."""

    def __init__(self) -> None:
        self._began = time.monotonic_ns()
        self._start_ms = time.time_ns() // 1_000_000

    def now(self) -> int:
        return self._start_ms + (time.monotonic_ns() - self._began) // 1_000_000

    def not_below(self, at: int) -> None:
        behind = at - self.now()
        if behind > 0:
            self._start_ms += behind

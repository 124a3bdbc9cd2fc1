"""The age of a partition's messages: one mark for each span of time, not for each message."""

from array import array
from bisect import bisect_right

_MARKS = 64
_WIDTH_MS_MAX = 60_000


class TimeIndex:
    """Marks (latest time, next ordinal): every message below the ordinal was produced by that time.

    A mark covers the messages of a 64th of the retention, at most a minute. So a message expires at most that
    much too late, and never too early.
    """

    __slots__ = ("_began", "_ends", "_times")

    def __init__(self) -> None:
        self._times = array("Q")
        self._ends = array("Q")
        self._began = 0
        """When the newest mark began."""

    def note(self, at: int, end: int, *, retention_ms: int) -> None:
        """Messages up to `end` were produced by `at`."""
        if self._times and at - self._began < min(retention_ms // _MARKS, _WIDTH_MS_MAX):
            self._times[-1] = at
            self._ends[-1] = end
        else:
            self._began = at
            self._times.append(at)
            self._ends.append(end)

    def end_by(self, at: int) -> int:
        """The ordinal after the last message that is known to have been produced by `at`; 0 for none."""
        number = bisect_right(self._times, at)
        return self._ends[number - 1] if number else 0

    def first_after(self, at: int) -> int:
        """An ordinal at or below the first message produced after `at`, and not far below it."""
        return self.end_by(at)

    def forget_below(self, first: int) -> None:
        """Drop the marks that only cover messages below this ordinal."""
        number = bisect_right(self._ends, first)
        if number:
            del self._times[:number], self._ends[:number]

    def dump(self) -> tuple[bytes, bytes, int]:
        return self._times.tobytes(), self._ends.tobytes(), self._began

    def load(self, dumped: tuple[bytes, bytes, int]) -> None:
        times, ends, self._began = dumped
        self._times.frombytes(times)
        self._ends.frombytes(ends)

"""One at a time, in the order of asking."""

import threading
from collections import deque


class FairLock:
    """A lock that goes to the thread that has waited longest.

    With an ordinary lock the thread that lets go often gets it again at once, and under load another one
    may wait without end.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._taken = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def take(self, *, timeout_s: float) -> bool:
        """False if the turn did not come in time."""
        with self._mutex:
            if not self._taken:
                self._taken = True
                return True
            mine = threading.Event()
            self._waiting.append(mine)
        if mine.wait(timeout_s):
            return True
        with self._mutex:
            if mine.is_set():  # It came between the timeout and here.
                return True
            self._waiting.remove(mine)
            return False

    def give(self) -> None:
        """End one's turn."""
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._taken = False

"""Counts the threads inside a section, so that another thread can wait until it is empty."""

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Open to all threads, until one shuts it because it needs the section to be empty."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside: Counter[int] = Counter()
        self._shut = False

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Be inside for the block; waits while the gate is shut."""
        me = threading.get_ident()
        with self._changed:
            while self._shut and me not in self._inside:
                self._changed.wait()
            self._inside[me] += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside[me] -= 1
                if not self._inside[me]:
                    del self._inside[me]
                    if self._shut:
                        self._changed.notify_all()

    def shut(self, *, timeout_s: float) -> bool:
        """True when it is shut and empty; False, and open, when the caller is inside or others stay."""
        with self._changed:
            if threading.get_ident() in self._inside:
                return False
            self._shut = True
            if self._changed.wait_for(lambda: not self._inside, timeout_s):
                return True
            self._open()
            return False

    def open(self) -> None:
        """Let those in who wait."""
        with self._changed:
            self._open()

    def _open(self) -> None:
        self._shut = False
        self._changed.notify_all()

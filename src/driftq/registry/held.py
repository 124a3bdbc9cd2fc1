"""Which claims this process knows that it holds, so that a lost answer does not cost a whole lease.

A grant can be committed while its answer is lost with the connection. The event would then be in progress,
held by us and worked on by nobody, until the lease ends. So every registry object has a name of its own
that it stores with its grants, and remembers which of them reached a caller: a live grant under our name
that nobody here has, or is waiting for, may be granted again at once.
"""

import threading
from collections.abc import Iterable

HeldKey = tuple[str, str]
"""Handler and event id."""


class HeldClaims:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: set[HeldKey] = set()

    def reserve(self, keys: Iterable[HeldKey]) -> set[HeldKey]:
        """Take note that an answer is being waited for. Returns the keys that nobody here had before."""
        with self._lock:
            fresh = set(keys) - self._keys
            self._keys |= fresh
            return fresh

    def drop(self, keys: Iterable[HeldKey]) -> None:
        """Not held, or not any more."""
        with self._lock:
            self._keys.difference_update(keys)

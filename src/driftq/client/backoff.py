"""How long to wait before something that failed is tried again."""

import random

FIRST_S = 0.05
LONGEST_S = 2.0


class Backoff:
    """Doubles with each failure up to a limit, at random so that clients do not march in step."""

    def __init__(self, *, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0

    def succeeded(self) -> None:
        self._failures = 0

    def next_s(self, *, at_least_s: float = 0.0) -> float:
        """The pause after one more failure."""
        pause = min(self._first_s * 2.0 ** min(self._failures, 16), self._longest_s)
        self._failures += 1
        return max(pause * random.uniform(0.5, 1.0), at_least_s * random.uniform(1.0, 1.25))

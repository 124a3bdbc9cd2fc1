"""How long the client waits before it repeats what failed."""

import random

from driftq.model.backoff import between, doubled

FIRST_S = 0.05
LONGEST_S = 2.0


class RetryBackoff:
    """Doubles with each failure in a row up to a limit, with jitter so that clients do not march in step."""

    def __init__(self, *, first_s: float = FIRST_S, longest_s: float = LONGEST_S) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._failures = 0

    def succeeded(self) -> None:
        self._failures = 0

    def next_s(self, *, at_least_s: float = 0.0) -> float:
        """The pause after one more failure."""
        pause = doubled(self._first_s, self._failures, cap=self._longest_s)
        self._failures += 1
        jitter = random.random()  # noqa: S311 - a pause is no secret
        return max(pause * between(0.5, 1.0, jitter), at_least_s * between(1.0, 1.25, jitter))

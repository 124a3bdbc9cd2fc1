"""How long a failed event waits before its next attempt: exponential, with full jitter."""

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Backoff:
    """The delay before retry k is drawn from 0 to min(base · 2^(k-1), cap)."""

    base_ms: int = 1000
    cap_ms: int = 60_000

    def limit_ms(self, retry: int) -> int:
        doublings = min(retry - 1, 32)  # Beyond that every cap is reached.
        return min(self.base_ms << doublings, self.cap_ms)

    def draw_ms(self, retry: int, random: Random) -> int:
        return random.randint(0, self.limit_ms(retry))

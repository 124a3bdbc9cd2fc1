"""Exponential backoff: how long to wait before the next try.

A wait doubles from a base up to a cap. Jitter spreads the waits of many callers, so that they do not all
come back at the same moment. This module is pure: the caller passes the jitter, a number from 0 to 1.
"""

from dataclasses import dataclass
from typing import TypeVar

_Wait = TypeVar("_Wait", int, float)
_DOUBLINGS_MAX = 40
"""Every cap in use is reached before that; the limit keeps the numbers small."""


def doubled(wait: _Wait, times: int = 1, *, cap: _Wait) -> _Wait:
    """The wait doubled `times` times, at most the cap."""
    return min(wait * (1 << min(times, _DOUBLINGS_MAX)), cap)


def between(low: float, high: float, jitter: float) -> float:
    """`low` for a jitter of 0, `high` for a jitter of 1."""
    return low + (high - low) * jitter


@dataclass(frozen=True, slots=True)
class Backoff:
    """After the k-th failure in a row the wait is at most min(base · 2^(k-1), cap)."""

    base_ms: int = 1000
    cap_ms: int = 60_000

    def limit_ms(self, failures: int) -> int:
        """The longest wait, for a caller that needs no jitter."""
        return doubled(self.base_ms, failures - 1, cap=self.cap_ms)

    def full_jitter_ms(self, failures: int, jitter: float) -> int:
        """Anything from 0 to the longest wait."""
        return int(jitter * self.limit_ms(failures))

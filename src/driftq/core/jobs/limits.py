"""Limits of claims: how many jobs of a queue or limit key run at once, and how many start in a time.

A rate holds in every window, not in fixed ones: the meter knows the times of the latest claims, and one more
claim is allowed when the one that lies `count` claims back is at least `per_ms` old.
"""

from collections import deque

import msgspec


class ClaimRate(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """At most `count` claims in any window of `per_ms` milliseconds."""

    count: int
    per_ms: int


class ClaimLimit(msgspec.Struct, array_like=True, frozen=True):
    """Both hold where both are given."""

    concurrency: int | None = None
    rate: ClaimRate | None = None


class QueueLimits(msgspec.Struct, array_like=True, frozen=True):
    """The limits of a queue as a whole, and of each limit key in it."""

    queue: ClaimLimit = ClaimLimit()
    per_key: ClaimLimit = ClaimLimit()


NO_LIMITS = QueueLimits()
FREE = 0
"""One more claim is allowed at once."""


class ClaimMeter:
    """Counts claims against a limit."""

    __slots__ = ("in_flight", "taken", "times")

    def __init__(self) -> None:
        self.in_flight = 0
        """Live leases."""
        self.taken = 0
        """Claims of the decision that is under way: they are not recorded yet."""
        self.times: deque[int] = deque()
        """Of the latest claims, as far as a rate needs them."""

    def free_at(self, limit: ClaimLimit, now: int) -> int | None:
        """When one more claim is allowed, FREE if it is now; None when that takes the end of a lease."""
        if limit.concurrency is not None and self.in_flight + self.taken >= limit.concurrency:
            return None
        if limit.rate is None:
            return FREE
        recorded = limit.rate.count - self.taken
        if recorded <= 0:
            return now + limit.rate.per_ms
        if len(self.times) < recorded:
            return FREE
        at = self.times[-recorded] + limit.rate.per_ms
        return at if at > now else FREE

    def claimed(self, rate: ClaimRate | None, at: int) -> None:
        """A claim is recorded."""
        self.in_flight += 1
        if rate is not None:
            self.times.append(at)
            self.trim(rate, at)

    def trim(self, rate: ClaimRate | None, now: int) -> None:
        """Forget the claims that no window of this rate needs from now on."""
        times = self.times
        if rate is None:
            times.clear()
            return
        while times and (len(times) > rate.count or times[0] + rate.per_ms <= now):
            times.popleft()

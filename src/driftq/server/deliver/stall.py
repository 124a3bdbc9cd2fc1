"""Holding back a stream whose owner gives no sign of life.

A process that is stopped keeps its connection open, and the kernel takes whatever it is sent. If it got as
many messages as the others, it would let them lapse until none has a try left. So a stream whose leases end
without a word gets one message at a time: the first when it is due, each further one after a pause behind
the lease of the one before, and the pause doubles. An ack, a nack or an extension of its owner, also one that
is refused, ends that.
"""

from driftq.model.backoff import doubled

STALL_PAUSE_MAX_MS = 30_000
CLOSING_REST_MS = 1_000
"""How long a stream with `release_on_close` gets nothing after its owner gave something back unstarted: what
came meanwhile would be released, and counted, when it closes."""


class Stall:
    """When a stream without a sign of life gets its next message."""

    __slots__ = ("next_at", "pause_ms")

    def __init__(self, *, lease_ms: int, now: int) -> None:
        self.next_at = now
        self.pause_ms = min(lease_ms, STALL_PAUSE_MAX_MS)

    def dealt(self, *, lease_ms: int, now: int) -> None:
        """It got a message now: the next one waits for the end of that lease and then for the pause."""
        self.next_at = now + lease_ms + self.pause_ms
        self.pause_ms = doubled(self.pause_ms, cap=STALL_PAUSE_MAX_MS)

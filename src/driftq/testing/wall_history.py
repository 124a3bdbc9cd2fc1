"""The readings of a simulated machine's wall clock, and the range that its server may take them for.

It records the changes made to the clock, independent of how the server reads it.
"""

from __future__ import annotations

from dataclasses import dataclass

STEP_MS = 60_000
HOLD_MS = 60_000
NOTICED_MS = 6_000
"""A server whose disk fails may look at its clock as late as this."""
APART_MS = 10_000
"""Two steps that are closer may look like one."""
_FOR_EVER = 1 << 62


@dataclass(slots=True)
class _Span:
    """From an instant of engine time on: how far the wall clock is ahead of it, at least and at most."""

    start: int
    low: int
    high: int


class WallHistory:
    """Spans of engine time, which goes on from one life of the server to the next."""

    def __init__(self) -> None:
        self._spans: list[_Span] = []
        self._ahead = 0
        self._set_at = 0

    def started(self, now: int, wall: int) -> None:
        """A server has started, and uses the clock as it is."""
        self._cut(now)
        self._ahead, self._set_at = wall - now, now - APART_MS
        self._spans.append(_Span(now, self._ahead, self._ahead))

    def stepped(self, now: int, *, by_ms: int) -> None:
        """The clock was set."""
        self._cut(now)
        before = self._spans[-1].low
        self._ahead += by_ms
        self._set_at = now
        if self._ahead - before <= STEP_MS:
            self._spans.append(_Span(now, self._ahead, self._ahead))
            return
        counts_from = now + HOLD_MS
        self._spans += [
            _Span(now, before, before),
            _Span(counts_from, before, self._ahead),
            _Span(counts_from + NOTICED_MS, self._ahead, self._ahead),
        ]

    def _cut(self, now: int) -> None:
        """Drop everything after now: a crash undid it."""
        self._spans = [span for span in self._spans if span.start <= now]

    def may_be_set(self, now: int) -> bool:
        """Whether a step now is surely told from the one before."""
        span = self._at(now)
        return span.low == span.high == self._ahead and now - self._set_at >= APART_MS

    def held_back_ms(self, now: int) -> int:
        """How far the clock has gone ahead by a step that does not count yet; 0 when there is none."""
        span = self._at(now)
        return self._ahead - span.low if span.low == span.high else 0

    def lowest(self, since: int, until: int) -> int:
        """The earliest time that the server may have read between two instants of engine time."""
        return min(max(since, start) + span.low for span, start, _ in self._between(since, until))

    def highest(self, since: int, until: int) -> int:
        """The latest time that it may have read."""
        return max(min(until, end) + span.high for span, _, end in self._between(since, until))

    def _at(self, now: int) -> _Span:
        return max((span for span in self._spans if span.start <= now), key=lambda span: span.start)

    def _between(self, since: int, until: int) -> list[tuple[_Span, int, int]]:
        ends = [*(span.start for span in self._spans[1:]), _FOR_EVER]
        return [
            (span, span.start, end)
            for span, end in zip(self._spans, ends, strict=True)
            if span.start <= until and end >= since
        ]

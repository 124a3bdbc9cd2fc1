"""A clock that stands still until it is told to move."""

START_MS = 1_700_000_000_000


class VirtualClock:
    """Milliseconds since 1970, moved by hand. Takes the place of `driftq.server.clock.SystemClock`."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._now = start_ms

    def now(self) -> int:
        return self._now

    def not_below(self, at: int) -> None:
        self._now = max(self._now, at)

    def advance(self, *, ms: int) -> None:
        """Let so much time pass."""
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        self._now += ms

    def advance_to(self, when: int) -> None:
        """Let time pass until then; nothing happens when that is in the past."""
        self._now = max(self._now, when)

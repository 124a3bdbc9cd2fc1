"""A clock that moves only when the test moves it."""

from driftq.server.clock import WallWatch

START_MS = 1_700_000_000_000


class VirtualClock:
    """Milliseconds since 1970, moved by hand. Takes the place of `driftq.server.clock.SystemClock`."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._start = self._wall_start = start_ms
        self._passed = 0
        self._watch = WallWatch(start_ms, 0)

    def now(self) -> int:
        return self._start + self._passed

    def wall(self) -> int:
        return self._watch.read(self.machine_wall(), self._passed)

    def machine_wall(self) -> int:
        """The machine's wall clock, whether or not the server uses it yet."""
        return self._wall_start + self._passed

    def not_below(self, at: int) -> None:
        self._start = max(self._start, at - self._passed)

    def advance(self, *, ms: int) -> None:
        """Let `ms` milliseconds pass."""
        if ms < 0:
            raise ValueError(f"time does not go back: {ms} ms")
        self._passed += ms

    def advance_to(self, when: int) -> None:
        """Let time pass until then; nothing happens when that is in the past."""
        self._passed = max(self._passed, when - self._start)

    def set_wall(self, *, by_ms: int) -> None:
        """Set the machine's wall clock, forward or back; no time passes."""
        self._wall_start += by_ms

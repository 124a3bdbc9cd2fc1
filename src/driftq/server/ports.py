"""What the engine needs from its surroundings, so that a simulator can stand in for all of them."""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from driftq.core.lease import Credit
from driftq.errors import DatabaseDamaged, EventDamaged, LogCorrupt
from driftq.log.frame import Frame

_T = TypeVar("_T")

Damage = LogCorrupt | EventDamaged | DatabaseDamaged
"""A stored message or event is damaged."""


class SyncLost(OSError):
    """Confirmed bytes may not be on disk: nothing may be written after them."""


class Clock(Protocol):
    """Two times, both in milliseconds since 1970."""

    def now(self) -> int:
        """Engine time, for durations; it never goes back."""
        ...

    def wall(self) -> int:
        """The machine's wall clock, for instants that users give; it may be set in either direction."""
        ...

    def not_below(self, at: int) -> None:
        """From now on it is at least `at`."""
        ...


class Alarm(Protocol):
    def cancel(self) -> None: ...


class Loop(Protocol):
    """Where the engine's turns run: one thread."""

    def soon(self, call: Callable[[], None]) -> None: ...

    def at(self, when: int, call: Callable[[], None]) -> Alarm:
        """Call at a time of the engine's clock."""
        ...


class Background(Protocol):
    """Work that may block; away from the loop `done` gets its result or error, on the loop."""

    def commit(self, frames: Sequence[Frame], done: Callable[[OSError | None], None]) -> None:
        """Make frames durable at the level in force."""
        ...

    @property
    def may_commit_here(self) -> bool:
        """Whether the disk is quick enough for `commit_here`."""
        ...

    def commits_here(self, frames: Sequence[Frame]) -> bool:
        """Whether `commit_here` may take these frames: nothing else is being written, and it is quick."""
        ...

    def commit_here(self, frames: Sequence[Frame]) -> OSError | None:
        """Make frames durable on the thread of the caller, the loop; the error when that fails."""
        ...

    def read(self, work: Callable[[], _T], done: Callable[[_T | Exception], None]) -> None: ...

    def repeat(self, step: Callable[[], bool]) -> None:
        """Call `step` away from the loop, at leisure, until it returns False or raises OSError.

        Nothing happens while steps of an earlier call are still under way.
        """
        ...

    def stop(self) -> None: ...


class ConsumerStream(Protocol):
    """One open consume stream."""

    topic: str
    group: str
    owner: str
    lease_ms: int
    prefetch: int
    prefetch_bytes: int
    latest: bool
    release_on_close: bool
    credit: Credit

    def send(self, lines: bytes) -> None: ...

    def unsent_bytes(self) -> int: ...

    def end(self) -> None:
        """The server closes the stream."""
        ...

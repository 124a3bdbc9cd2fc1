"""What a handler declares about itself: its effect, its order, its retries and its lease."""

import enum
from dataclasses import dataclass

from driftq.errors import InvalidArgument

HANDLER_BYTES_MAX = 245


class Effect(enum.StrEnum):
    """What a crash between the effect and its mark means."""

    TRANSACTIONAL = "transactional"
    """The effect is SQL in the registry's database, in the mark's transaction: both happen or neither."""
    IDEMPOTENT = "idempotent"
    """Repeating it changes nothing: a keyed upsert, an external version, an idempotency header."""
    UNKNOWN = "unknown"
    """After a crash it is unknown whether the effect happened; an operator checks and calls `resolve`."""


class GapPolicy(enum.StrEnum):
    """In which order the events of one aggregate have their effect."""

    ORDERED = "ordered"
    """Each exactly after the one before it; one that is given up is parked and the next goes on."""
    FULL_STATE = "full_state"
    """Each event carries the whole state: whatever is not newer than the newest done one is left out."""


@dataclass(frozen=True, slots=True)
class Handler:
    """Who claims. Two handlers of different names do not know of each other."""

    name: str
    effect: Effect
    gap_policy: GapPolicy = GapPolicy.ORDERED
    max_retries: int = 5
    lease_ms: int = 900_000

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise InvalidArgument("max_retries", "must not be negative")
        if self.lease_ms <= 0:
            raise InvalidArgument("lease_ms", "must be positive")

    @property
    def max_attempts(self) -> int:
        return self.max_retries + 1

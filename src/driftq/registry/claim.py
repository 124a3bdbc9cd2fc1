"""A claim: a handler's exclusive right to one event, or the reason why there is none now."""

import enum
from dataclasses import dataclass
from typing import Protocol

import msgspec

from driftq.registry.handler import Effect, GapPolicy, Handler


class SequencedEvent(Protocol):
    """What the registry needs to know of an event; `driftq.model.event.Event` has it."""

    @property
    def event_id(self) -> str: ...
    @property
    def aggregate_type(self) -> str: ...
    @property
    def aggregate_id(self) -> str: ...
    @property
    def sequence_number(self) -> int | None: ...


class EventKey(msgspec.Struct, frozen=True, gc=False):
    """An event without its content."""

    event_id: str
    aggregate_type: str
    aggregate_id: str
    sequence_number: int


class ClaimOutcome(enum.StrEnum):
    """What to do with the event now."""

    CLAIMED = "claimed"
    """It is ours: perform the effect, then mark it."""
    DUPLICATE_DONE = "duplicate_done"
    """Settled before, done or parked as a dead letter: acknowledge and go on."""
    STALE = "stale"
    """Not newer than what was done for its aggregate: acknowledge and go on."""
    IN_PROGRESS = "in_progress"
    """Not now: neither acknowledge nor count it, and come back after `wait_ms`."""


class ClaimState(enum.StrEnum):
    """What is stored about a (handler, event)."""

    CLAIMED = "claimed"
    FAILED = "failed"  # Waits for its retry.
    READY = "ready"  # Given back or requeued: may be claimed at once.
    DONE = "done"
    STALE = "stale"  # Overtaken by a newer event before it was done.
    DEAD = "dead"  # Given up and kept: the dead letter.
    UNKNOWN = "unknown"  # Its effect may or may not have happened.


class Wait(enum.StrEnum):
    """Why an event is in progress."""

    HELD = "held"  # Another worker has it under a live lease.
    BACKOFF = "backoff"  # It failed and its retry is not due.
    PREDECESSOR = "earlier"  # An earlier event of the aggregate is missing or not settled.
    UNRESOLVED = "unresolved"  # Its effect is unknown until an operator resolves it.


class Claim(msgspec.Struct, frozen=True):
    """The answer to a claim, and the proof to finish it with."""

    handler: Handler
    event: SequencedEvent
    outcome: ClaimOutcome
    state: ClaimState | None = None
    token: int = 0
    """Fencing token, for the sinks: it grows with every grant in the aggregate, and the older one loses."""
    attempt: int = 0
    """Which try this is, from 1."""
    lease_until: int = 0
    wait: Wait | None = None
    wait_ms: int = 0
    """How long coming back is pointless, as far as is known."""
    last_error: str = ""

    @property
    def granted(self) -> bool:
        return self.outcome is ClaimOutcome.CLAIMED


@dataclass(frozen=True, slots=True)
class StoredClaim:
    """What the registry keeps about one (handler, event), for people and for polling."""

    handler: str
    event_id: str
    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    state: ClaimState
    token: int
    attempts: int
    requeues: int
    owner: str
    effect: Effect
    gap_policy: GapPolicy
    lease_until: int
    retry_at: int
    last_error: str
    reason: str
    claimed_at: int
    finished_at: int


@dataclass(frozen=True, slots=True)
class Failure:
    """What became of a failed attempt: its retry, or the dead letter."""

    state: ClaimState
    attempt: int
    retry_in_ms: int = 0


class Resolution(enum.StrEnum):
    """What an operator found out about an unknown effect."""

    DONE = "done"
    """It did happen."""
    RETRY = "retry"
    """It did not happen: claim it again."""
    DEAD = "dead"
    """Neither: park it as a dead letter."""

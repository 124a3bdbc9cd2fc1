"""What a claim is answered, from what is stored: pure, and the only place where it is decided.

The rules, first match wins. *Superseded* is an event whose sequence is not above the aggregate's
`last_sequence`; an event of an ordered handler that an operator requeued is exempt, because it was parked
and the aggregate has moved on by decision.

    nothing stored       superseded → STALE; a gap before it (ordered) → wait; else granted
    done, dead           → DUPLICATE_DONE
    stale                → STALE
    unknown              → wait until resolved
    claimed, lease alive → wait, unless it is our own grant whose answer never reached us: granted again
    claimed, lease over  effect unknown → becomes unknown; superseded → becomes stale;
                         no attempt left → becomes dead; else granted
    failed, ready        superseded → becomes stale; not due → wait; a gap (ordered) → wait; else granted
"""

from dataclasses import dataclass

from driftq.registry.claim import ClaimOutcome, ClaimState, Wait
from driftq.registry.handler import Effect, GapPolicy, Handler

LEASE_EXPIRED = "lease_expired"


@dataclass(frozen=True, slots=True)
class StoredState:
    """What is stored about one (handler, event)."""

    state: ClaimState
    token: int
    attempts: int
    requeues: int
    lease_until: int
    retry_at: int
    effect: Effect
    last_error: str


@dataclass(frozen=True, slots=True)
class ClaimDecision:
    """The outcome, and the state to write; None when nothing has to be written."""

    outcome: ClaimOutcome
    state: ClaimState | None
    write: ClaimState | None = None
    attempt: int = 0
    wait: Wait | None = None
    wait_ms: int = 0
    last_error: str = ""


def decide_claim(
    handler: Handler,
    seen: StoredState | None,
    *,
    sequence: int,
    last_sequence: int,
    now: int,
    answer_lost: bool = False,
) -> ClaimDecision:
    """The decision for one event. `answer_lost`: a live lease is ours, but its answer was lost."""
    ordered = handler.gap_policy is GapPolicy.ORDERED
    gap = ordered and sequence > last_sequence + 1
    if seen is None:
        if sequence <= last_sequence:
            return ClaimDecision(ClaimOutcome.STALE, None)
        return _wait(None, Wait.PREDECESSOR) if gap else _grant(1)
    superseded = sequence <= last_sequence and not (ordered and seen.requeues)
    match seen.state:
        case ClaimState.DONE | ClaimState.DEAD:
            return ClaimDecision(ClaimOutcome.DUPLICATE_DONE, seen.state, last_error=seen.last_error)
        case ClaimState.STALE:
            return ClaimDecision(ClaimOutcome.STALE, seen.state)
        case ClaimState.UNKNOWN:
            return _wait(seen, Wait.UNRESOLVED)
        case ClaimState.CLAIMED:
            if seen.lease_until > now:
                if answer_lost:
                    return _grant(seen.attempts, seen)
                return _wait(seen, Wait.HELD, seen.lease_until - now)
            return _take_over(handler, seen, superseded=superseded)
        case ClaimState.FAILED | ClaimState.READY:
            if superseded:
                return ClaimDecision(ClaimOutcome.STALE, ClaimState.STALE, write=ClaimState.STALE)
            if seen.retry_at > now:
                return _wait(seen, Wait.BACKOFF, seen.retry_at - now)
            return _wait(seen, Wait.PREDECESSOR) if gap else _grant(seen.attempts + 1, seen)


def _take_over(handler: Handler, seen: StoredState, *, superseded: bool) -> ClaimDecision:
    """The lease has expired, and its holder reported nothing."""
    if seen.effect is Effect.UNKNOWN:
        unknown = ClaimState.UNKNOWN
        return ClaimDecision(
            ClaimOutcome.IN_PROGRESS, unknown, write=unknown, wait=Wait.UNRESOLVED, last_error=LEASE_EXPIRED
        )
    if superseded:
        return ClaimDecision(ClaimOutcome.STALE, ClaimState.STALE, write=ClaimState.STALE)
    if seen.attempts >= handler.max_attempts:
        dead = ClaimState.DEAD
        error = seen.last_error or LEASE_EXPIRED
        return ClaimDecision(ClaimOutcome.DUPLICATE_DONE, dead, write=dead, last_error=error)
    return _grant(seen.attempts + 1, seen)


def _grant(attempt: int, seen: StoredState | None = None) -> ClaimDecision:
    claimed = ClaimState.CLAIMED
    error = seen.last_error if seen else ""
    return ClaimDecision(ClaimOutcome.CLAIMED, claimed, write=claimed, attempt=attempt, last_error=error)


def _wait(seen: StoredState | None, why: Wait, wait_ms: int = 0) -> ClaimDecision:
    state, error = (seen.state, seen.last_error) if seen else (None, "")
    return ClaimDecision(ClaimOutcome.IN_PROGRESS, state, wait=why, wait_ms=wait_ms, last_error=error)

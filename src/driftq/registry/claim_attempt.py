"""One event in a claim: the stored state, the decision, and the rows that record it."""

from dataclasses import dataclass
from typing import Any

from driftq.errors import InvalidArgument
from driftq.model.event import Aggregate
from driftq.registry.claim import Claim, ClaimState, SequencedEvent
from driftq.registry.decide import LEASE_EXPIRED, ClaimDecision, StoredState
from driftq.registry.handler import Effect, Handler

_REASONS = {ClaimState.DEAD: "max_attempts", ClaimState.UNKNOWN: LEASE_EXPIRED}


@dataclass(frozen=True, slots=True)
class ClaimAttempt:
    event: SequencedEvent
    aggregate: Aggregate
    sequence: int
    seen: StoredState | None
    last_sequence: int
    decision: ClaimDecision

    @property
    def granting(self) -> bool:
        return self.decision.write is ClaimState.CLAIMED

    def answer(self, handler: Handler, *, token: int = 0, lease_until: int = 0) -> Claim:
        return Claim(
            handler,
            self.event,
            self.decision.outcome,
            self.decision.state,
            token=token,
            attempt=self.decision.attempt,
            lease_until=lease_until,
            wait=self.decision.wait,
            wait_ms=self.decision.wait_ms,
            last_error=self.decision.last_error,
        )

    def fresh_row(self, token: int) -> dict[str, Any]:
        return {
            "id": self.event.event_id,
            "of_type": self.aggregate.type,
            "of_id": self.aggregate.id,
            "place": self.sequence,
            "token": token,
            "attempt": self.decision.attempt,
        }

    def renewal_row(self, token: int) -> dict[str, Any]:
        return {"fresh": token, "attempt": self.decision.attempt, **self._as_seen()}

    def closing_row(self) -> dict[str, Any]:
        state = self.decision.write
        reason = _REASONS.get(state, "") if state else ""
        return {"closed": state, "error": self.decision.last_error, "why": reason, **self._as_seen()}

    def _as_seen(self) -> dict[str, Any]:
        """The claim as it must still be for the change to be made."""
        if self.seen is None:
            raise AssertionError("only what was stored can be changed")
        return {
            "id": self.event.event_id,
            "seen_token": self.seen.token,
            "seen_state": self.seen.state,
            "seen_lease": self.seen.lease_until,
        }


def seen_in(row: Any, event: SequencedEvent) -> StoredState | None:
    """What a row of `look` says about the event; raises InvalidArgument if it is another one's id."""
    if row.state is None:
        return None
    stored = (row.aggregate_type, row.aggregate_id, row.sequence_number)
    if stored != (event.aggregate_type, event.aggregate_id, event.sequence_number):
        raise InvalidArgument("event_id", f"{event.event_id!r} belongs to another event")
    return StoredState(
        ClaimState(row.state),
        row.token,
        row.attempts,
        row.requeues,
        row.lease_until,
        row.retry_at,
        Effect(row.effect),
        row.last_error,
    )

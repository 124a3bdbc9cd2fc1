"""What people and timers do with claims: look, requeue, resolve, skip ahead, forget."""

from typing import Any

from driftq.errors import ClaimNotFound, InvalidArgument, WrongClaimState
from driftq.registry.claim import ClaimState, Resolution, StoredClaim
from driftq.registry.handler import Effect, GapPolicy
from driftq.sql import Queries, Transaction, as_rows, key_text, storable

FORGET_MS_MIN = 60_000


class Keeping:
    """The part of a registry that no worker needs for a single event."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def find(
        self, transaction: Transaction, handler: str, event_id: str, *, lock: bool = False
    ) -> StoredClaim:
        query = self._queries["lock_claim" if lock else "find_claim"]
        row = transaction.row(query, handler=handler, event_id=event_id)
        if row is None:
            raise ClaimNotFound(handler, event_id=event_id)
        return _stored(row)

    def result_of(self, transaction: Transaction, handler: str, event_id: str) -> str | None:
        row = transaction.row(self._queries["find_result"], handler=handler, event_id=event_id)
        return row.result if row is not None else None

    def list_claims(
        self,
        transaction: Transaction,
        state: ClaimState,
        *,
        handler: str | None,
        limit: int,
        after: tuple[str, str] | None,
    ) -> list[StoredClaim]:
        after_handler, after_event = after or ("", "")
        rows = transaction.rows(
            self._queries["list_claims"],
            state=state.value,
            any_handler=int(handler is None),
            handler=handler or "",
            from_start=int(after is None),
            after_handler=after_handler,
            after_event=after_event,
            most=limit,
        )
        return [_stored(row) for row in rows]

    def due(self, transaction: Transaction, handler: str, *, limit: int) -> list[StoredClaim]:
        return [
            _stored(row) for row in transaction.rows(self._queries["list_due"], handler=handler, most=limit)
        ]

    def counts(self, transaction: Transaction, handler: str) -> dict[ClaimState, int]:
        rows = transaction.rows(self._queries["count_states"], handler=handler)
        return {ClaimState(row.state): row.claims for row in rows}

    def report_unknown(self, transaction: Transaction) -> int:
        return transaction.run(self._queries["report_unknown"])

    def abandon(self, transaction: Transaction, incarnation: str) -> int:
        return transaction.run(self._queries["abandon"], incarnation=incarnation)

    def requeue(self, transaction: Transaction, handler: str, event_id: str, *, by: str) -> StoredClaim:
        stored = self.find(transaction, handler, event_id, lock=True)
        if stored.state is not ClaimState.DEAD:
            raise WrongClaimState(handler, event_id=event_id, state=stored.state, asked="requeue")
        self._ready(transaction, stored, reason=f"requeued by {by}")
        return self.find(transaction, handler, event_id)

    def resolve(
        self, transaction: Transaction, handler: str, event_id: str, resolution: Resolution, *, by: str
    ) -> StoredClaim:
        # The aggregate before the claim, as everywhere; which aggregate it is never changes.
        self._lock_position(transaction, self.find(transaction, handler, event_id))
        stored = self.find(transaction, handler, event_id, lock=True)
        if stored.state is not ClaimState.UNKNOWN:
            raise WrongClaimState(handler, event_id=event_id, state=stored.state, asked="resolve")
        reason = f"resolved as {resolution} by {by}"
        if resolution is Resolution.RETRY:
            self._ready(transaction, stored, reason=reason)
        else:
            given = {"handler": handler, "event_id": event_id, "reason": storable(reason)}
            transaction.run(self._queries["close"], state=resolution.value, **given)
            if resolution is Resolution.DONE or stored.gap_policy is GapPolicy.ORDERED:
                self._advance(
                    transaction, handler, stored.aggregate_type, stored.aggregate_id, stored.sequence_number
                )
        return self.find(transaction, handler, event_id)

    def last_sequence(
        self, transaction: Transaction, handler: str, *, aggregate_type: str, aggregate_id: str
    ) -> int:
        given = {"handler": handler, "aggregate_type": aggregate_type, "aggregate_id": aggregate_id}
        row = transaction.row(self._queries["position"], **given)
        return int(row.last_sequence) if row else 0

    def skip_to(
        self, transaction: Transaction, handler: str, *, aggregate_type: str, aggregate_id: str, sequence: int
    ) -> None:
        if sequence < 0:
            raise InvalidArgument("sequence", "must not be negative")
        kind, identity = key_text("aggregate_type", aggregate_type), key_text("aggregate_id", aggregate_id)
        self._advance(transaction, handler, kind, identity, sequence)

    def forget(self, transaction: Transaction, *, older_than_ms: int, limit: int) -> int:
        # Whoever is claiming right now has looked and not yet written: what it saw must not vanish meanwhile.
        if older_than_ms < FORGET_MS_MIN:
            raise InvalidArgument("older_than_ms", f"must be at least {FORGET_MS_MIN}")
        return transaction.run(self._queries["forget_finished"], older_than_ms=older_than_ms, most=limit)

    def _ready(self, transaction: Transaction, stored: StoredClaim, *, reason: str) -> None:
        given = {"handler": stored.handler, "event_id": stored.event_id, "reason": storable(reason)}
        transaction.run(self._queries["make_ready"], **given)

    def _lock_position(self, transaction: Transaction, stored: StoredClaim) -> None:
        given = as_rows([{"of_type": stored.aggregate_type, "of_id": stored.aggregate_id}])
        transaction.rows(self._queries["lock_positions"], handler=stored.handler, g=given)

    def _advance(
        self, transaction: Transaction, handler: str, kind: str, identity: str, sequence: int
    ) -> None:
        given = [{"of_type": kind, "of_id": identity, "reached": sequence}]
        transaction.run(self._queries["advance"], handler=handler, g=as_rows(given))


def _stored(row: Any) -> StoredClaim:
    fields = {name: getattr(row, name) for name in StoredClaim.__slots__}
    words = {
        "state": ClaimState(row.state),
        "effect": Effect(row.effect),
        "gap_policy": GapPolicy(row.gap_policy),
    }
    return StoredClaim(**fields | words)

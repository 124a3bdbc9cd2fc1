"""Claims without the registry: only the last sequence of each aggregate is stored.

For handlers whose effect is idempotent, where ENABLE_PROCESSED_EVENT_REGISTRY is false. An event whose
sequence is not above the aggregate's is stale; every other one is granted, to any worker. There is no lease
and no fencing, so a crash, or a second worker, repeats an effect. Attempts are counted in memory and restart
with the process; a dead letter is stored in the guard's file as in any registry.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import random

from driftq.model import Aggregate
from driftq.registry import Backoff, Claim, ClaimOutcome, ClaimState, Failure, GapPolicy, Handler, Wait
from driftq.registry.claim import SequencedEvent
from driftq.registry.sql_registry import Beside, SqlRegistry
from driftq.sql import Queries, Transaction, as_rows, perform


class SequenceGuard:
    """Implements `Claims` on the positions of a registry's file.

    The registry itself decides about events that are not new: requeued dead letters are claimed there in
    the usual way.
    """

    def __init__(self, registry: SqlRegistry, *, backoff: Backoff | None = None) -> None:
        self._registry = registry
        self._queries = Queries.load("driftq.registry", registry.database.renderer)
        self._backoff = backoff or Backoff()
        self._attempts: dict[str, int] = {}

    @property
    def batch_max(self) -> int:
        return self._registry.batch_max

    def claim_all(self, handler: Handler, events: Sequence[SequencedEvent]) -> list[Claim]:
        aggregates = list({Aggregate(event.aggregate_type, event.aggregate_id) for event in events})
        reached = self._registry.last_sequences(handler.name, aggregates)
        return [
            self._claim(handler, event, reached.get(Aggregate(event.aggregate_type, event.aggregate_id), 0))
            for event in events
        ]

    def _claim(self, handler: Handler, event: SequencedEvent, reached: int) -> Claim:
        sequence = event.sequence_number or 0
        if sequence <= reached:
            return self._registry.claim_all(handler, [event])[0]
        if handler.gap_policy is GapPolicy.ORDERED and sequence > reached + 1:
            return Claim(handler, event, ClaimOutcome.IN_PROGRESS, wait=Wait.PREDECESSOR)
        attempt = self._attempts.get(event.event_id, 0) + 1
        return Claim(handler, event, ClaimOutcome.CLAIMED, attempt=attempt)

    def heartbeat(self, claim: Claim) -> None:
        if _is_real(claim):
            self._registry.heartbeat(claim)

    def heartbeat_all(self, claims: Sequence[Claim]) -> list[Claim]:
        return self._registry.heartbeat_all([claim for claim in claims if _is_real(claim)])

    def mark_done_all(self, claims: Sequence[Claim], *, beside: Beside | None = None) -> list[Claim]:
        real = [claim for claim in claims if _is_real(claim)]
        lost = self._registry.mark_done_all(real, beside=beside) if real else []
        if guarded := [claim for claim in claims if not _is_real(claim)]:
            perform(self._registry.database, lambda own: self._advance(own, guarded, beside))
        for claim in claims:
            self._attempts.pop(claim.event.event_id, None)
        return lost

    def mark_failed(self, claim: Claim, *, error: str, retryable: bool = True) -> Failure:
        if _is_real(claim):
            return self._registry.mark_failed(claim, error=error, retryable=retryable)
        if retryable and claim.attempt < claim.handler.max_attempts:
            self._attempts[claim.event.event_id] = claim.attempt
            jitter = random()  # noqa: S311 - a pause is no secret
            return Failure(
                ClaimState.FAILED, claim.attempt, self._backoff.full_jitter_ms(claim.attempt, jitter)
            )
        [real] = self._registry.claim_all(claim.handler, [claim.event])
        if real.granted:
            self._registry.mark_failed(real, error=error, retryable=False)
        self._attempts.pop(claim.event.event_id, None)
        return Failure(ClaimState.DEAD, claim.attempt)

    def release_all(self, claims: Sequence[Claim]) -> list[Claim]:
        return self._registry.release_all([claim for claim in claims if _is_real(claim)])

    def _advance(self, transaction: Transaction, claims: Sequence[Claim], beside: Beside | None) -> None:
        reached: dict[Aggregate, int] = {}
        for claim in claims:
            aggregate = Aggregate(claim.event.aggregate_type, claim.event.aggregate_id)
            reached[aggregate] = max(reached.get(aggregate, 0), claim.event.sequence_number or 0)
        given = [{"of_type": kind, "of_id": name, "reached": to} for (kind, name), to in reached.items()]
        transaction.run(self._queries["advance"], handler=claims[0].handler.name, g=as_rows(given))
        if beside is not None:
            beside(transaction, claims)


def _is_real(claim: Claim) -> bool:
    """It was granted by the registry, which numbers tokens from 1."""
    return claim.token > 0

"""What people and timers do with claims, each in a given transaction: find, list, requeue, resolve, forget.

No worker needs these for a single event. `SqlRegistry` has the contract of each.
"""

from collections.abc import Sequence
from typing import Any

from driftq.errors import ClaimNotFound, InvalidArgument, WrongClaimState
from driftq.model.event import Aggregate
from driftq.registry.claim import ClaimState, Resolution, StoredClaim
from driftq.registry.dead_letters import mark_redriven, record_dead_letters
from driftq.registry.handler import Effect, GapPolicy
from driftq.sql import Queries, Transaction, as_rows, key_text, storable

FORGET_MS_MIN = 60_000
OPEN_STATES = (
    ClaimState.CLAIMED,
    ClaimState.FAILED,
    ClaimState.READY,
    ClaimState.DEAD,
    ClaimState.UNKNOWN,
)
"""Of claims that are not finished."""


def find(
    transaction: Transaction, queries: Queries, handler: str, event_id: str, *, lock: bool = False
) -> StoredClaim:
    query = queries["lock_claim" if lock else "find_claim"]
    row = transaction.row(query, handler=handler, event_id=event_id)
    if row is None:
        raise ClaimNotFound(handler, event_id=event_id)
    return _stored(row)


def result_of(transaction: Transaction, queries: Queries, handler: str, event_id: str) -> str | None:
    row = transaction.row(queries["find_result"], handler=handler, event_id=event_id)
    return row.result if row is not None else None


def list_claims(
    transaction: Transaction,
    queries: Queries,
    state: ClaimState,
    *,
    handler: str | None,
    limit: int,
    after: tuple[str, str] | None,
) -> list[StoredClaim]:
    after_handler, after_event = after or ("", "")
    rows = transaction.rows(
        queries["list_claims"],
        state=state.value,
        any_handler=int(handler is None),
        handler=handler or "",
        from_start=int(after is None),
        after_handler=after_handler,
        after_event=after_event,
        most=limit,
    )
    return [_stored(row) for row in rows]


def due(transaction: Transaction, queries: Queries, handler: str, *, limit: int) -> list[StoredClaim]:
    return [_stored(row) for row in transaction.rows(queries["list_due"], handler=handler, most=limit)]


def counts(transaction: Transaction, queries: Queries, handler: str) -> dict[ClaimState, int]:
    rows = transaction.rows(queries["count_states"], handler=handler)
    return {ClaimState(row.state): row.claims for row in rows}


def open_counts(transaction: Transaction, queries: Queries) -> dict[ClaimState, int]:
    """The claims of all handlers that are not finished, by state; 0 where there is none."""
    rows = transaction.rows(queries["count_open"])
    return dict.fromkeys(OPEN_STATES, 0) | {ClaimState(row.state): row.claims for row in rows}


def report_unknown(transaction: Transaction, queries: Queries) -> int:
    return transaction.run(queries["report_unknown"])


def abandon(transaction: Transaction, queries: Queries, incarnation: str) -> int:
    return transaction.run(queries["abandon"], incarnation=incarnation)


def requeue(
    transaction: Transaction, queries: Queries, handler: str, event_id: str, *, by: str
) -> StoredClaim:
    stored = find(transaction, queries, handler, event_id, lock=True)
    if stored.state is not ClaimState.DEAD:
        raise WrongClaimState(handler, event_id=event_id, state=stored.state, asked="requeue")
    _ready(transaction, queries, stored, reason=f"requeued by {by}")
    mark_redriven(transaction, queries, handler, event_id, by=by)
    return find(transaction, queries, handler, event_id)


def resolve(
    transaction: Transaction,
    queries: Queries,
    handler: str,
    event_id: str,
    resolution: Resolution,
    *,
    by: str,
) -> StoredClaim:
    # Every transaction locks the aggregate before the claim. The aggregate of a claim never changes.
    found = find(transaction, queries, handler, event_id)
    aggregate = Aggregate(found.aggregate_type, found.aggregate_id)
    given = as_rows([{"of_type": aggregate.type, "of_id": aggregate.id}])
    transaction.rows(queries["lock_positions"], handler=handler, g=given)
    stored = find(transaction, queries, handler, event_id, lock=True)
    if stored.state is not ClaimState.UNKNOWN:
        raise WrongClaimState(handler, event_id=event_id, state=stored.state, asked="resolve")
    reason = f"resolved as {resolution} by {by}"
    if resolution is Resolution.RETRY:
        _ready(transaction, queries, stored, reason=reason)
    else:
        closing = {"handler": handler, "event_id": event_id, "reason": storable(reason)}
        transaction.run(queries["close"], state=resolution.value, **closing)
        if resolution is Resolution.DEAD:
            record_dead_letters(transaction, queries, handler, [event_id])
        if resolution is Resolution.DONE or stored.gap_policy is GapPolicy.ORDERED:
            _move(transaction, queries, handler, aggregate, stored.sequence_number)
    return find(transaction, queries, handler, event_id)


def last_sequence(transaction: Transaction, queries: Queries, handler: str, aggregate: Aggregate) -> int:
    row = transaction.row(
        queries["position"], handler=handler, aggregate_type=aggregate.type, aggregate_id=aggregate.id
    )
    return int(row.last_sequence) if row else 0


def last_sequences(
    transaction: Transaction, queries: Queries, handler: str, aggregates: Sequence[Aggregate]
) -> dict[Aggregate, int]:
    given = as_rows([{"of_type": kind, "of_id": name} for kind, name in aggregates])
    rows = transaction.rows(queries["find_positions"], handler=handler, g=given)
    return {Aggregate(kind, name): reached for kind, name, reached in rows}


def skip_to(
    transaction: Transaction, queries: Queries, handler: str, aggregate: Aggregate, sequence: int
) -> None:
    if sequence < 0:
        raise InvalidArgument("sequence", "must not be negative")
    key_text("aggregate_type", aggregate.type)
    key_text("aggregate_id", aggregate.id)
    _move(transaction, queries, handler, aggregate, sequence)


def forget(transaction: Transaction, queries: Queries, *, older_than_ms: int, limit: int) -> int:
    # A concurrent claim has looked and not yet written: the claim it saw must not vanish meanwhile.
    if older_than_ms < FORGET_MS_MIN:
        raise InvalidArgument("older_than_ms", f"must be at least {FORGET_MS_MIN}")
    return transaction.run(queries["forget_finished"], older_than_ms=older_than_ms, most=limit)


def _ready(transaction: Transaction, queries: Queries, stored: StoredClaim, *, reason: str) -> None:
    given = {"handler": stored.handler, "event_id": stored.event_id, "reason": storable(reason)}
    transaction.run(queries["make_ready"], **given)


def _move(
    transaction: Transaction, queries: Queries, handler: str, aggregate: Aggregate, sequence: int
) -> None:
    """Advance the aggregate, and wake the parked events that were waiting for it: no worker is told."""
    given = [{"of_type": aggregate.type, "of_id": aggregate.id, "reached": sequence}]
    transaction.run(queries["advance"], handler=handler, g=as_rows(given))
    reached = last_sequence(transaction, queries, handler, aggregate)
    where = {"aggregate_type": aggregate.type, "aggregate_id": aggregate.id}
    transaction.run(queries["wake"], handler=handler, reached=reached, **where)


def _stored(row: Any) -> StoredClaim:
    fields = {name: getattr(row, name) for name in StoredClaim.__slots__}
    enums = {
        "state": ClaimState(row.state),
        "effect": Effect(row.effect),
        "gap_policy": GapPolicy(row.gap_policy),
    }
    return StoredClaim(**fields | enums)

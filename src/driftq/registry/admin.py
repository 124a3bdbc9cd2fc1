"""What people and timers do with claims, each in a given transaction: find, list, requeue, resolve, forget.

No worker needs these for a single event. `SqlRegistry` has the contract of each.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from driftq.errors import ClaimNotFound, InvalidArgument, WrongClaimState
from driftq.model.event import Aggregate
from driftq.registry.claim import ClaimState, Resolution, StoredClaim
from driftq.registry.dead_letters import mark_redriven, record_dead_letters
from driftq.registry.handler import Effect, GapPolicy
from driftq.sql import Queries, Transaction, as_rows, key_text, storable

FORGET_MS_MIN = 60_000
OPEN_STATES = (ClaimState.UNKNOWN, ClaimState.DEAD, ClaimState.FAILED, ClaimState.CLAIMED, ClaimState.READY)
"""In the order in which a page lists them: first what waits for an operator."""
_FINISHED = frozenset({ClaimState.DONE, ClaimState.STALE})
_LOOK_MAX = 2_000
"""Finished claims that one page looks at, those of other handlers among them."""
_NEWEST = 2**63 - 1


class ClaimPlace(NamedTuple):
    """Where a page of claims ended. Open claims have a state and no time, finished ones a time."""

    state: str
    finished_at: int
    handler: str
    event_id: str


class ClaimPage(NamedTuple):
    """Some claims, and the place after which to look for more; None at the end."""

    claims: list[StoredClaim]
    more_after: ClaimPlace | None


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


def page(
    transaction: Transaction,
    queries: Queries,
    *,
    states: Sequence[ClaimState],
    handler: str | None,
    limit: int,
    after: ClaimPlace | None,
) -> ClaimPage:
    """At most `limit` claims in these states: open ones state by state, or finished ones, the newest first.

    Only indexes are read. The index of finished claims does not know handlers, so a page of one handler may
    be short, or empty, and still have more behind it.
    """
    if _FINISHED.issuperset(states):
        return _finished_page(transaction, queries, states=states, handler=handler, limit=limit, after=after)
    found: list[StoredClaim] = []
    for state in states:
        if after is not None and state.value != after.state:
            continue  # It was listed before.
        behind = ("", "") if after is None else (after.handler, after.event_id)
        after, most = None, limit + 1 - len(found)
        if handler is None:
            asked = {"after_handler": behind[0], "after_event": behind[1]}
            rows = transaction.rows(queries["list_open"], state=state.value, most=most, **asked)
        else:
            asked = {"handler": handler, "after_event": behind[1]}
            rows = transaction.rows(queries["list_open_of_handler"], state=state.value, most=most, **asked)
        found += [_stored(row) for row in rows]
        if len(found) > limit:
            last = found[limit - 1]
            return ClaimPage(found[:limit], ClaimPlace(last.state.value, 0, last.handler, last.event_id))
    return ClaimPage(found, None)


def _finished_page(
    transaction: Transaction,
    queries: Queries,
    *,
    states: Sequence[ClaimState],
    handler: str | None,
    limit: int,
    after: ClaimPlace | None,
) -> ClaimPage:
    most = limit + 1 if handler is None and _FINISHED.issubset(states) else _LOOK_MAX
    rows = transaction.rows(
        queries["list_finished"],
        before=_NEWEST if after is None else after.finished_at,
        after_handler="" if after is None else after.handler,
        after_event="" if after is None else after.event_id,
        most=most,
    )
    found: list[StoredClaim] = []
    for number, row in enumerate(rows, start=1):
        if row.state in states and handler in (None, row.handler):
            found.append(_stored(row))
        if (len(found) == limit and number < len(rows)) or number == most:
            return ClaimPage(found, ClaimPlace("", row.finished_at, row.handler, row.event_id))
    return ClaimPage(found, None)


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

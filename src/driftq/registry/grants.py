"""Grants for events that were never claimed, without reading what is stored.

Nearly all events come once. So they are granted by one statement that stores a claim only where none is and
where the aggregate allows it. An event that it does not grant is claimed already, or stale, or must wait:
`driftq.registry.claiming` looks at those. The rule is the first line of `driftq.registry.decide`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from driftq.registry.claim import Claim, ClaimOutcome, ClaimState, SequencedEvent
from driftq.registry.handler import GapPolicy, Handler
from driftq.sql import Dialect, Queries, Transaction, as_rows


class ClaimGrant(NamedTuple):
    token: int
    lease_until: int

    def claim(self, handler: Handler, event: SequencedEvent) -> Claim:
        granted, claimed = ClaimOutcome.CLAIMED, ClaimState.CLAIMED
        return Claim(
            handler, event, granted, claimed, token=self.token, attempt=1, lease_until=self.lease_until
        )


def new_tokens(transaction: Transaction, queries: Queries, count: int) -> list[int]:
    """So many new tokens; SQLite's counter returns the last of them."""
    if not count:
        return []
    rows = transaction.rows(queries["new_tokens"], tokens=count)
    last = max(row[0] for row in rows)
    return [row[0] for row in rows] if len(rows) == count else list(range(last - count + 1, last + 1))


def grant_new(
    transaction: Transaction,
    queries: Queries,
    handler: Handler,
    events: Sequence[SequencedEvent],
    *,
    owner: str,
    incarnation: str,
) -> Mapping[str, ClaimGrant]:
    """What was granted, by event id. The events are different ones."""
    by_id = sorted(events, key=lambda event: event.event_id)
    if transaction.dialect is Dialect.SQLITE:
        return _grant_each(transaction, queries, handler, by_id, owner=owner, incarnation=incarnation)
    given = [
        {
            "id": event.event_id,
            "of_type": event.aggregate_type,
            "of_id": event.aggregate_id,
            "place": event.sequence_number,
            "lowest": _lowest(handler, event),
        }
        for event in by_id
    ]
    shared = grant_columns(handler, owner=owner, incarnation=incarnation)
    rows = transaction.rows(queries["grant_new"], g=as_rows(given), **shared)
    return {event_id: ClaimGrant(token, lease_until) for event_id, token, lease_until in rows}


def grant_columns(handler: Handler, *, owner: str, incarnation: str) -> dict[str, Any]:
    """What all grants of one call have in common, as the queries call it."""
    return {
        "handler": handler.name,
        "effect": handler.effect.value,
        "gap_policy": handler.gap_policy.value,
        "owner": owner,
        "incarnation": incarnation,
        "lease_ms": handler.lease_ms,
    }


def _grant_each(
    transaction: Transaction,
    queries: Queries,
    handler: Handler,
    events: Sequence[SequencedEvent],
    *,
    owner: str,
    incarnation: str,
) -> Mapping[str, ClaimGrant]:
    tokens = new_tokens(transaction, queries, len(events))
    now = transaction.now()
    until = now + handler.lease_ms
    ends = (handler.effect.value, handler.gap_policy.value, owner, incarnation, until, now)
    stored = transaction.change_each(
        queries["grant_new"],
        [
            (
                handler.name,
                event.event_id,
                event.aggregate_type,
                event.aggregate_id,
                event.sequence_number,
                token,
                *ends,
                _lowest(handler, event),
            )
            for event, token in zip(events, tokens, strict=True)
        ],
    )
    granted = {event.event_id: ClaimGrant(token, until) for event, token in zip(events, tokens, strict=True)}
    if stored == len(events):
        return granted
    given = as_rows([{"id": event.event_id} for event in events])
    rows = transaction.rows(queries["held_now"], handler=handler.name, g=given)
    return {row.id: granted[row.id] for row in rows if row.token == granted[row.id].token}


def _lowest(handler: Handler, event: SequencedEvent) -> int:
    """Where the aggregate must be at least, so that there is no gap before the event."""
    return (event.sequence_number or 1) - 1 if handler.gap_policy is GapPolicy.ORDERED else 0

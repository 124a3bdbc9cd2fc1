"""The end of a claim: done, failed, given back or unknown; only with the token that is in force.

A token is in force until the event is granted to another worker or an operator intervenes. An expired lease
is not yet lost: as long as no other worker has taken the event over, the holder of the token knows best
whether the effect happened and may report it. Repeating a call with the token that ended the claim changes
nothing, so a caller that lost the answer can repeat the call.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from driftq.errors import LeaseLost, WrongClaimState
from driftq.registry.claim import Claim, ClaimState, Failure
from driftq.registry.dead_letters import record_dead_letters
from driftq.registry.handler import GapPolicy, Handler
from driftq.sql import Dialect, Queries, Transaction, as_rows, storable


class NotAllHeld(Exception):
    """Of some claims that were to be finished in one go the token is not in force: nothing may be kept."""


def mark_done(transaction: Transaction, queries: Queries, claims: Sequence[Claim]) -> list[Claim]:
    """Finish all whose token is in force and advance their aggregates; returns the others."""
    return [
        lost for handler, own in _by_handler(claims) for lost in _done(transaction, queries, handler, own)
    ]


def _done(transaction: Transaction, queries: Queries, handler: Handler, claims: list[Claim]) -> list[Claim]:
    _lock(transaction, queries, claims)
    rows = transaction.rows(queries["finish"], handler=handler.name, g=as_rows(_token_rows(claims)))
    finished = {row.event_id for row in rows}
    _advance(transaction, queries, [claim for claim in claims if claim.event.event_id in finished])
    missing = [claim for claim in claims if claim.event.event_id not in finished]
    if not missing:
        return []
    stored = _stored(transaction, queries, missing)
    return [claim for claim in missing if stored[claim.event.event_id][:2] != (ClaimState.DONE, claim.token)]


def mark_all_done(transaction: Transaction, queries: Queries, claims: Sequence[Claim]) -> None:
    """The same when all tokens are in force, as nearly always; raises NotAllHeld when they are not.

    To advance the aggregates is to lock them, so it comes first, and what comes after it must fit.
    """
    for handler, own in _by_handler(claims):
        if _finish_and_advance(transaction, queries, handler, own) < len({c.event.event_id for c in own}):
            raise NotAllHeld


def _finish_and_advance(
    transaction: Transaction, queries: Queries, handler: Handler, claims: list[Claim]
) -> int:
    """How many were finished. One statement on PostgreSQL."""
    if transaction.dialect is Dialect.POSTGRES:
        given = {"g": as_rows(_token_rows(claims)), "a": as_rows(_reached_rows(_reached(claims)))}
        return transaction.run(queries["finish_and_advance"], handler=handler.name, **given)
    _advance(transaction, queries, claims)
    now = transaction.now()
    by_id = sorted(claims, key=lambda claim: claim.event.event_id)
    rows = [(now, claim.event.event_id, handler.name, claim.token) for claim in by_id]
    return transaction.change_each(queries["finish_one"], rows)


def keep_result(transaction: Transaction, queries: Queries, claim: Claim, result: str) -> None:
    """Beside a claim that is about to be marked; one that is lost keeps nothing."""
    given = {"handler": claim.handler.name, "event_id": claim.event.event_id, "token": claim.token}
    transaction.run(queries["keep_result"], result=result, **given)


def mark_failed(
    transaction: Transaction,
    queries: Queries,
    claim: Claim,
    *,
    error: str,
    retryable: bool,
    delay_ms: int,
) -> Failure:
    """Wait for the retry, or park the event for good."""
    if retryable and claim.attempt < claim.handler.max_attempts:
        state, reason = ClaimState.FAILED, ""
    else:
        delay_ms = 0
        state, reason = ClaimState.DEAD, "max_attempts" if retryable else "not_retryable"
        _lock(transaction, queries, [claim])
    if _leave(transaction, queries, claim, state, error=error, reason=reason, delay_ms=delay_ms):
        if state is ClaimState.DEAD:
            record_dead_letters(transaction, queries, claim.handler.name, [claim.event.event_id])
        if state is ClaimState.DEAD and claim.handler.gap_policy is GapPolicy.ORDERED:
            _advance(transaction, queries, [claim])
        return Failure(state, claim.attempt, delay_ms)
    stored, token, attempts, left_ms = _stored(transaction, queries, [claim])[claim.event.event_id]
    if token == claim.token and stored in (ClaimState.FAILED, ClaimState.DEAD):
        return Failure(stored, attempts, left_ms if stored is ClaimState.FAILED else 0)
    raise lease_lost(transaction, queries, claim)


def release(transaction: Transaction, queries: Queries, claim: Claim) -> None:
    """Give it back as if it had never been claimed."""
    state = ClaimState.READY
    if not _leave(transaction, queries, claim, state, error=claim.last_error, refund=1):
        _require(transaction, queries, claim, state)


def release_all(transaction: Transaction, queries: Queries, claims: Sequence[Claim]) -> list[Claim]:
    """The same for many; returns those that are lost."""
    lost: list[Claim] = []
    for handler, own in _by_handler(claims):
        given = as_rows(_token_rows(own))
        released = {
            row.event_id for row in transaction.rows(queries["release"], handler=handler.name, g=given)
        }
        missing = [claim for claim in own if claim.event.event_id not in released]
        stored = _stored(transaction, queries, missing) if missing else {}
        lost += [c for c in missing if stored[c.event.event_id][:2] != (ClaimState.READY, c.token)]
    return lost


def mark_unknown(transaction: Transaction, queries: Queries, claim: Claim, *, error: str) -> None:
    """Leave it to an operator."""
    state = ClaimState.UNKNOWN
    if not _leave(transaction, queries, claim, state, error=error, reason="reported"):
        _require(transaction, queries, claim, state)


def heartbeat(transaction: Transaction, queries: Queries, claims: Sequence[Claim]) -> list[Claim]:
    """Extend the leases from now; returns the claims that are lost."""
    lost: list[Claim] = []
    for handler, own in _by_handler(claims):
        given = {"handler": handler.name, "lease_ms": handler.lease_ms, "g": as_rows(_token_rows(own))}
        alive = {row.event_id for row in transaction.rows(queries["heartbeat"], **given)}
        lost += [claim for claim in own if claim.event.event_id not in alive]
    return lost


def begin(transaction: Transaction, queries: Queries, claim: Claim) -> int:
    """Lock the aggregate for the claim's own SQL and return its last sequence.

    Raises LeaseLost, or WrongClaimState when this very claim is done already.
    """
    _advance(transaction, queries, [claim], to=0)  # A position that is not there cannot be locked.
    rows = _lock(transaction, queries, [claim], always=True)
    state, token = _stored(transaction, queries, [claim])[claim.event.event_id][:2]
    if token == claim.token and state is ClaimState.CLAIMED:
        return int(rows[0].last_sequence)
    if token == claim.token and state is ClaimState.DONE:
        name, event_id = claim.handler.name, claim.event.event_id
        raise WrongClaimState(name, event_id=event_id, state=state, asked="apply")
    raise lease_lost(transaction, queries, claim)


def supersede(transaction: Transaction, queries: Queries, claim: Claim) -> None:
    _leave(transaction, queries, claim, ClaimState.STALE, error=claim.last_error)


def lease_lost(transaction: Transaction, queries: Queries, claim: Claim) -> LeaseLost:
    """The error that says which token is in force instead."""
    state, token = _stored(transaction, queries, [claim])[claim.event.event_id][:2]
    held = token if state is ClaimState.CLAIMED else None
    what = f"event {claim.event.event_id!r} for handler {claim.handler.name!r}"
    return LeaseLost(what, held=held, given=claim.token)


def _lock(
    transaction: Transaction, queries: Queries, claims: Sequence[Claim], *, always: bool = False
) -> Sequence[Any]:
    """Hold the claims' aggregates until the transaction ends; SQLite's writer holds everything anyway."""
    if transaction.dialect is Dialect.SQLITE and not always:
        return ()
    whose = {(claim.event.aggregate_type, claim.event.aggregate_id) for claim in claims}
    given = as_rows([{"of_type": kind, "of_id": identity} for kind, identity in whose])
    return transaction.rows(queries["lock_positions"], handler=claims[0].handler.name, g=given)


def _advance(
    transaction: Transaction, queries: Queries, claims: Sequence[Claim], *, to: int | None = None
) -> None:
    """Move the claims' aggregates up to their sequences, or to `to`; never back."""
    if not claims:
        return
    reached = _reached(claims) if to is None else dict.fromkeys(_reached(claims), to)
    handler = claims[0].handler.name
    if transaction.dialect is Dialect.SQLITE:
        rows = [(handler, kind, name, sequence) for (kind, name), sequence in sorted(reached.items())]
        transaction.change_each(queries["advance_one"], rows)
    else:
        transaction.run(queries["advance"], handler=handler, g=as_rows(_reached_rows(reached)))


def _reached(claims: Sequence[Claim]) -> dict[tuple[str, str], int]:
    """The highest sequence of each of the claims' aggregates."""
    reached: dict[tuple[str, str], int] = {}
    for claim in claims:
        event = claim.event
        whose = (event.aggregate_type, event.aggregate_id)
        reached[whose] = max(reached.get(whose, 0), event.sequence_number or 0)
    return reached


def _reached_rows(reached: dict[tuple[str, str], int]) -> list[dict[str, Any]]:
    return [{"of_type": kind, "of_id": name, "reached": to} for (kind, name), to in reached.items()]


def _leave(
    transaction: Transaction,
    queries: Queries,
    claim: Claim,
    state: ClaimState,
    *,
    error: str,
    reason: str = "",
    delay_ms: int = 0,
    refund: int = 0,
) -> bool:
    changed = transaction.run(
        queries["leave"],
        handler=claim.handler.name,
        event_id=claim.event.event_id,
        token=claim.token,
        state=state.value,
        error=storable(error),
        reason=reason,
        delay_ms=delay_ms,
        refund=refund,
    )
    return changed == 1


def _require(transaction: Transaction, queries: Queries, claim: Claim, state: ClaimState) -> None:
    """The claim is already in this state by the same token, or it is lost."""
    if _stored(transaction, queries, [claim])[claim.event.event_id][:2] != (state, claim.token):
        raise lease_lost(transaction, queries, claim)


def _stored(
    transaction: Transaction, queries: Queries, claims: Sequence[Claim]
) -> dict[str, tuple[ClaimState | None, int, int, int]]:
    """State, token, attempts and milliseconds until the retry, by event id."""
    given = as_rows([{"id": claim.event.event_id} for claim in claims])
    rows = transaction.rows(queries["held_now"], handler=claims[0].handler.name, g=given)
    return {
        row.id: (ClaimState(row.state), row.token, row.attempts, max(0, row.retry_at - row.now))
        if row.state
        else (None, 0, 0, 0)
        for row in rows
    }


def _by_handler(claims: Sequence[Claim]) -> Iterator[tuple[Handler, list[Claim]]]:
    by_name = sorted(claims, key=lambda claim: claim.handler.name)
    for _, own in groupby(by_name, key=lambda claim: claim.handler.name):
        group = list(own)
        yield group[0].handler, group


def _token_rows(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    by_id = sorted(claims, key=lambda claim: claim.event.event_id)
    return [{"id": claim.event.event_id, "held": claim.token} for claim in by_id]

"""The end of a claim: done, failed, given back or unknown; only with the token that is in force.

A token is in force until somebody else was granted the event or somebody intervened. A lease that has run
out is not yet lost: if nobody took the event over, whoever still has the token knows best whether the
effect happened, and may say so. Repeating a call with the token that ended the claim changes nothing, so a
call whose answer was lost can be made again.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from random import Random
from typing import Any

from driftq.errors import LeaseLost, WrongClaimState
from driftq.model.backoff import Backoff
from driftq.registry.claim import Claim, ClaimState, Failure
from driftq.registry.handler import GapPolicy, Handler
from driftq.sql import Dialect, Queries, Transaction, as_rows, storable


class NotAllHeld(Exception):
    """Of some claims that were to be finished in one go the token is not in force: nothing may be kept."""


class Finishing:
    """The finishing half of a registry."""

    def __init__(self, queries: Queries, *, backoff: Backoff, random: Random) -> None:
        self._queries = queries
        self._backoff = backoff
        self._random = random

    def mark_done(self, transaction: Transaction, claims: Sequence[Claim]) -> list[Claim]:
        """Finish all whose token is in force and advance their aggregates; returns the others."""
        return [
            lost for handler, own in _by_handler(claims) for lost in self._done(transaction, handler, own)
        ]

    def _done(self, transaction: Transaction, handler: Handler, claims: list[Claim]) -> list[Claim]:
        self.lock(transaction, claims)
        rows = transaction.rows(self._queries["finish"], handler=handler.name, g=as_rows(_held(claims)))
        finished = {row.event_id for row in rows}
        self._advance(transaction, [claim for claim in claims if claim.event.event_id in finished])
        missing = [claim for claim in claims if claim.event.event_id not in finished]
        if not missing:
            return []
        stored = self._stored(transaction, missing)
        return [
            claim for claim in missing if stored[claim.event.event_id][:2] != (ClaimState.DONE, claim.token)
        ]

    def mark_all_done(self, transaction: Transaction, claims: Sequence[Claim]) -> None:
        """The same when all tokens are in force, as nearly always; raises NotAllHeld when they are not.

        To advance the aggregates is to lock them, so it comes first, and what comes after it must fit.
        """
        for handler, own in _by_handler(claims):
            self._advance(transaction, own)
            if self._finish(transaction, handler, own) < len({claim.event.event_id for claim in own}):
                raise NotAllHeld

    def _finish(self, transaction: Transaction, handler: Handler, claims: list[Claim]) -> int:
        """How many were finished."""
        if transaction.dialect is Dialect.POSTGRES:
            given = as_rows(_held(claims))
            return len(transaction.rows(self._queries["finish"], handler=handler.name, g=given))
        now = transaction.now()
        by_id = sorted(claims, key=lambda claim: claim.event.event_id)
        rows = [(now, claim.event.event_id, handler.name, claim.token) for claim in by_id]
        return transaction.change_each(self._queries["finish_one"], rows)

    def keep_result(self, transaction: Transaction, claim: Claim, result: str) -> None:
        """Beside a claim that is about to be marked; one that is lost keeps nothing."""
        given = {"handler": claim.handler.name, "event_id": claim.event.event_id, "token": claim.token}
        transaction.run(self._queries["keep_result"], result=result, **given)

    def mark_failed(self, transaction: Transaction, claim: Claim, *, error: str, retryable: bool) -> Failure:
        """Wait for the retry, or park the event for good."""
        if retryable and claim.attempt < claim.handler.max_attempts:
            delay_ms = self._backoff.full_jitter_ms(claim.attempt, self._random.random())
            state, reason = ClaimState.FAILED, ""
        else:
            delay_ms = 0
            state, reason = ClaimState.DEAD, "max_attempts" if retryable else "not_retryable"
            self.lock(transaction, [claim])
        if self._leave(transaction, claim, state, error=error, reason=reason, delay_ms=delay_ms):
            if state is ClaimState.DEAD and claim.handler.gap_policy is GapPolicy.ORDERED:
                self._advance(transaction, [claim])
            return Failure(state, claim.attempt, delay_ms)
        stored, token, attempts, left_ms = self._stored(transaction, [claim])[claim.event.event_id]
        if token == claim.token and stored in (ClaimState.FAILED, ClaimState.DEAD):
            return Failure(stored, attempts, left_ms if stored is ClaimState.FAILED else 0)
        raise self.lost(transaction, claim)

    def release(self, transaction: Transaction, claim: Claim) -> None:
        """Give it back as if it had never been claimed."""
        state = ClaimState.READY
        if not self._leave(transaction, claim, state, error=claim.last_error, refund=1):
            self._require(transaction, claim, state)

    def mark_unknown(self, transaction: Transaction, claim: Claim, *, error: str) -> None:
        """Leave it to somebody who can find out."""
        state = ClaimState.UNKNOWN
        if not self._leave(transaction, claim, state, error=error, reason="reported"):
            self._require(transaction, claim, state)

    def heartbeat(self, transaction: Transaction, claims: Sequence[Claim]) -> list[Claim]:
        """Extend the leases from now; returns the claims that are lost."""
        lost: list[Claim] = []
        for handler, own in _by_handler(claims):
            given = {"handler": handler.name, "lease_ms": handler.lease_ms, "g": as_rows(_held(own))}
            alive = {row.event_id for row in transaction.rows(self._queries["heartbeat"], **given)}
            lost += [claim for claim in own if claim.event.event_id not in alive]
        return lost

    def begin(self, transaction: Transaction, claim: Claim) -> int:
        """Lock the aggregate for the claim's own SQL and return its last sequence.

        Raises LeaseLost, or WrongClaimState when this very claim is done already.
        """
        self._advance(transaction, [claim], to=0)  # A position that is not there cannot be locked.
        rows = self.lock(transaction, [claim], always=True)
        state, token = self._stored(transaction, [claim])[claim.event.event_id][:2]
        if token == claim.token and state is ClaimState.CLAIMED:
            return int(rows[0].last_sequence)
        if token == claim.token and state is ClaimState.DONE:
            name, event_id = claim.handler.name, claim.event.event_id
            raise WrongClaimState(name, event_id=event_id, state=state, asked="apply")
        raise self.lost(transaction, claim)

    def supersede(self, transaction: Transaction, claim: Claim) -> None:
        self._leave(transaction, claim, ClaimState.STALE, error=claim.last_error)

    def lost(self, transaction: Transaction, claim: Claim) -> LeaseLost:
        """The error that says which token is in force instead."""
        state, token = self._stored(transaction, [claim])[claim.event.event_id][:2]
        held = token if state is ClaimState.CLAIMED else None
        what = f"event {claim.event.event_id!r} for handler {claim.handler.name!r}"
        return LeaseLost(what, held=held, given=claim.token)

    def lock(
        self, transaction: Transaction, claims: Sequence[Claim], *, always: bool = False
    ) -> Sequence[Any]:
        """Hold the claims' aggregates until the transaction ends; SQLite's writer holds everything anyway."""
        if transaction.dialect is Dialect.SQLITE and not always:
            return ()
        whose = {(claim.event.aggregate_type, claim.event.aggregate_id) for claim in claims}
        given = as_rows([{"of_type": kind, "of_id": identity} for kind, identity in whose])
        return transaction.rows(self._queries["lock_positions"], handler=claims[0].handler.name, g=given)

    def _advance(self, transaction: Transaction, claims: Sequence[Claim], *, to: int | None = None) -> None:
        """Move the claims' aggregates up to their sequences, or to `to`; never back."""
        if not claims:
            return
        reached: dict[tuple[str, str], int] = {}
        for claim in claims:
            whose = (claim.event.aggregate_type, claim.event.aggregate_id)
            reached[whose] = max(
                reached.get(whose, 0), (claim.event.sequence_number or 0) if to is None else to
            )
        handler = claims[0].handler.name
        if transaction.dialect is Dialect.SQLITE:
            rows = [(handler, kind, name, to) for (kind, name), to in sorted(reached.items())]
            transaction.change_each(self._queries["advance_one"], rows)
        else:
            given = [{"of_type": kind, "of_id": name, "reached": to} for (kind, name), to in reached.items()]
            transaction.run(self._queries["advance"], handler=handler, g=as_rows(given))

    def _leave(
        self,
        transaction: Transaction,
        claim: Claim,
        state: ClaimState,
        *,
        error: str,
        reason: str = "",
        delay_ms: int = 0,
        refund: int = 0,
    ) -> bool:
        changed = transaction.run(
            self._queries["leave"],
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

    def _require(self, transaction: Transaction, claim: Claim, state: ClaimState) -> None:
        """The claim is already in this state by the same token, or it is lost."""
        if self._stored(transaction, [claim])[claim.event.event_id][:2] != (state, claim.token):
            raise self.lost(transaction, claim)

    def _stored(
        self, transaction: Transaction, claims: Sequence[Claim]
    ) -> dict[str, tuple[ClaimState | None, int, int, int]]:
        """State, token, attempts and milliseconds until the retry, by event id."""
        given = as_rows([{"id": claim.event.event_id} for claim in claims])
        rows = transaction.rows(self._queries["held_now"], handler=claims[0].handler.name, g=given)
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


def _held(claims: Sequence[Claim]) -> list[dict[str, Any]]:
    by_id = sorted(claims, key=lambda claim: claim.event.event_id)
    return [{"id": claim.event.event_id, "held": claim.token} for claim in by_id]

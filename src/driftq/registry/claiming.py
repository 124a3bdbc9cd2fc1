"""Claims against the database: look, decide, and write only if nothing has moved in between.

    0  grant     what was never claimed, if that is what comes these days: `driftq.registry.grants`
    1  look      the claims and their aggregates' positions, without a lock
    2  decide    `driftq.registry.decide`; whoever is told to wait, or that it is over, is answered here
    3  write     grants and closings, each on the condition that its claim is still what was seen

What 0 does not grant goes through the rest. What fails at 3 was decided on a view that is no longer true and
goes back to 1. That an aggregate moves on between 1 and 3 takes nothing away: a grant stays right when other
events are done, and its own event can only be done by whoever holds its claim, which 3 would see.

Fresh claims are inserted in the order of their ids; changes to existing claims lock the aggregates first, as
finishing does. So nobody waits in a circle.
"""

import uuid
from collections.abc import Iterator, Sequence

from driftq.errors import InvalidArgument
from driftq.model.event import Aggregate
from driftq.registry.claim import Claim, ClaimOutcome, ClaimState, SequencedEvent, Wait
from driftq.registry.claim_attempt import ClaimAttempt, seen_in
from driftq.registry.decide import decide_claim
from driftq.registry.grants import Grants
from driftq.registry.handler import HANDLER_BYTES_MAX, GapPolicy, Handler
from driftq.registry.held import HeldClaims
from driftq.sql import Queries, Transaction, as_rows, key_text

_ROUNDS = 8
_TYPE_BYTES_MAX = 512


class Claiming:
    """The claiming half of a registry. `owner` is for people and fences nothing."""

    def __init__(self, queries: Queries, *, owner: str, held: HeldClaims) -> None:
        self._queries = queries
        self._grants = Grants(queries, owner=owner)
        self._held = held
        self._new_expected = True
        self.take_new_name()

    def take_new_name(self) -> None:
        self.incarnation = uuid.uuid4().hex
        """The name under which this object's grants are stored; no other has it."""

    def claim(
        self, transaction: Transaction, handler: Handler, events: Sequence[SequencedEvent], *, named: bool
    ) -> list[Claim]:
        """One answer for each event, in order. `named`: the grants can be told as ours, see `HeldClaims`."""
        key_text("handler", handler.name, bytes_max=HANDLER_BYTES_MAX)
        pending = {event.event_id: event for event in reversed(events) if check_event(event)}
        answers: dict[str, Claim] = {}
        incarnation = self.incarnation if named else ""
        if self._new_expected:
            for event_id, grant in self._grants.grant(
                transaction, handler, list(pending.values()), incarnation
            ).items():
                answers[event_id] = grant.claim(handler, pending.pop(event_id))
        for _ in range(_ROUNDS):
            if not pending:
                break
            cases = list(self._look(transaction, handler, list(pending.values())))
            to_write = [case for case in cases if case.decision.write]
            settled = [case.answer(handler) for case in cases if not case.decision.write]
            if to_write:
                settled += self._write(transaction, handler, to_write, incarnation)
            for claim in settled:
                answers[claim.event.event_id] = claim
                del pending[claim.event.event_id]
        for event_id, event in pending.items():  # Others were faster every time: they have it.
            answers[event_id] = Claim(handler, event, ClaimOutcome.IN_PROGRESS, wait=Wait.HELD)
        first_claims = sum(claim.granted and claim.attempt == 1 for claim in answers.values())
        self._new_expected = 2 * first_claims >= len(answers)
        return list(_in_order(events, answers))

    def _look(
        self, transaction: Transaction, handler: Handler, events: list[SequencedEvent]
    ) -> Iterator[ClaimAttempt]:
        given = [{"id": e.event_id, "of_type": e.aggregate_type, "of_id": e.aggregate_id} for e in events]
        found = transaction.rows(self._queries["look"], handler=handler.name, g=as_rows(given))
        rows = {row.id: row for row in found}
        for event in events:
            row = rows[event.event_id]
            seen = seen_in(row, event)
            aggregate = Aggregate(event.aggregate_type, event.aggregate_id)
            sequence = event.sequence_number or 0
            decision = decide_claim(
                handler,
                seen,
                sequence=sequence,
                last_sequence=row.last_sequence,
                now=row.now,
                answer_lost=row.incarnation == self.incarnation
                and self._held.is_lost((handler.name, event.event_id), row.token),
            )
            yield ClaimAttempt(event, aggregate, sequence, seen, row.last_sequence, decision)

    def _write(
        self, transaction: Transaction, handler: Handler, cases: list[ClaimAttempt], incarnation: str
    ) -> Iterator[Claim]:
        grants = [case for case in cases if case.granting]
        drawn = dict(
            zip(
                (case.event.event_id for case in grants),
                self._grants.draw(transaction, len(grants)),
                strict=True,
            )
        )
        fresh = [case for case in grants if case.seen is None]
        again = [case for case in grants if case.seen is not None]
        closing = [case for case in cases if not case.granting]
        shared = self._grants.shared(handler, incarnation)
        if again or closing:
            self._lock(transaction, handler, again + closing)
        leases: dict[str, int] = {}
        if fresh:
            given = as_rows([case.fresh_row(drawn[case.event.event_id]) for case in fresh])
            leases |= dict(transaction.rows(self._queries["grant_fresh"], g=given, **shared))
        if again:
            given = as_rows([case.again_row(drawn[case.event.event_id]) for case in again])
            leases |= dict(transaction.rows(self._queries["grant_again"], g=given, **shared))
        for case in grants:
            event_id = case.event.event_id
            if event_id in leases:
                yield case.answer(handler, token=drawn[event_id], lease_until=leases[event_id])
        yield from self._close(transaction, handler, closing)

    def _lock(self, transaction: Transaction, handler: Handler, cases: list[ClaimAttempt]) -> None:
        given = [{"of_type": kind, "of_id": name} for kind, name in {case.aggregate for case in cases}]
        transaction.rows(self._queries["lock_positions"], handler=handler.name, g=as_rows(given))

    def _close(
        self, transaction: Transaction, handler: Handler, cases: list[ClaimAttempt]
    ) -> Iterator[Claim]:
        if not cases:
            return
        given = as_rows([case.closing_row() for case in cases])
        rows = transaction.rows(self._queries["close_unfinished"], handler=handler.name, g=given)
        closed = {row.event_id for row in rows}
        parked = [
            {"of_type": case.aggregate.type, "of_id": case.aggregate.id, "reached": case.sequence}
            for case in cases
            if case.decision.write is ClaimState.DEAD and case.event.event_id in closed
        ]
        if parked and handler.gap_policy is GapPolicy.ORDERED:
            transaction.run(self._queries["advance"], handler=handler.name, g=as_rows(parked))
        yield from (case.answer(handler) for case in cases if case.event.event_id in closed)


def check_event(event: SequencedEvent) -> bool:
    """True; raises InvalidArgument for what cannot be claimed."""
    key_text("event_id", event.event_id)
    key_text("aggregate_type", event.aggregate_type, bytes_max=_TYPE_BYTES_MAX)
    key_text("aggregate_id", event.aggregate_id)
    if event.sequence_number is None or event.sequence_number < 1:
        raise InvalidArgument("sequence_number", "must be given, from 1")
    return True


def _in_order(events: Sequence[SequencedEvent], answers: dict[str, Claim]) -> Iterator[Claim]:
    """Each event's answer; an event given twice is claimed once, and its second copy is in progress."""
    told: set[str] = set()
    for event in events:
        claim = answers[event.event_id]
        if claim.granted and event.event_id in told:
            held = ClaimState.CLAIMED
            yield Claim(claim.handler, event, ClaimOutcome.IN_PROGRESS, held, wait=Wait.HELD)
        else:
            yield claim
        told.add(event.event_id)

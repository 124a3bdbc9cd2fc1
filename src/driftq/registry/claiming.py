"""Claims against the database: look, decide, and write only if nothing has moved in between.

    0  grant     events without a stored claim, if most recent ones had none: `driftq.registry.grants`
    1  look      read the claims and their aggregates' positions, without a lock
    2  decide    `driftq.registry.decide`; events that must wait or are settled get their answer here
    3  write     grants and closings, each on the condition that its claim is unchanged since step 1

Events that step 0 does not grant go through the other steps. An event whose write fails at step 3 was decided
on an outdated view and goes back to step 1. An aggregate may advance between steps 1 and 3: a grant stays
valid when other events are done, and only the holder of its claim can finish its own event, which step 3
would detect.

New claims are inserted in the order of their ids; changes to existing claims lock the aggregates first, as
finishing does. So transactions cannot deadlock.
"""

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from driftq.errors import InvalidArgument
from driftq.model.event import Aggregate
from driftq.registry.claim import Claim, ClaimOutcome, ClaimState, SequencedEvent, Wait
from driftq.registry.claim_attempt import ClaimAttempt, seen_in
from driftq.registry.dead_letters import record_dead_letters
from driftq.registry.decide import decide_claim
from driftq.registry.grants import grant_columns, grant_new, new_tokens
from driftq.registry.handler import HANDLER_BYTES_MAX, GapPolicy, Handler
from driftq.registry.held_claims import HeldClaims
from driftq.sql import Queries, Transaction, as_rows, key_text

_ROUNDS = 8
_TYPE_BYTES_MAX = 512


@dataclass(slots=True)
class Claimant:
    """The registry object that claims. `owner` is a name for people and fences nothing."""

    owner: str
    held_claims: HeldClaims = field(default_factory=HeldClaims)
    incarnation: str = field(default_factory=lambda: uuid.uuid4().hex)
    """The name under which this object's grants are stored; no other object has it."""
    new_expected: bool = True
    """Most recent events were first claims, so the next ones are granted without a look."""

    def become_new(self) -> None:
        """In a forked child the parent's grants must not look like our own whose answers were lost."""
        self.held_claims.clear()
        self.incarnation = uuid.uuid4().hex


def claim_events(
    transaction: Transaction,
    queries: Queries,
    claimant: Claimant,
    handler: Handler,
    events: Sequence[SequencedEvent],
    *,
    named: bool,
) -> list[Claim]:
    """One answer for each event, in order. `named`: grants carry our incarnation, see `HeldClaims`."""
    pending = {event.event_id: event for event in reversed(events) if check_claim(handler, event)}
    answers: dict[str, Claim] = {}
    incarnation = claimant.incarnation if named else ""
    if claimant.new_expected:
        for event_id, grant in grant_new(
            transaction,
            queries,
            handler,
            list(pending.values()),
            owner=claimant.owner,
            incarnation=incarnation,
        ).items():
            answers[event_id] = grant.claim(handler, pending.pop(event_id))
    for _ in range(_ROUNDS):
        if not pending:
            break
        attempts = list(_look(transaction, queries, claimant, handler, list(pending.values())))
        to_write = [attempt for attempt in attempts if attempt.decision.write]
        settled = [attempt.answer(handler) for attempt in attempts if not attempt.decision.write]
        if to_write:
            settled += _write(transaction, queries, claimant, handler, to_write, incarnation)
        for claim in settled:
            answers[claim.event.event_id] = claim
            del pending[claim.event.event_id]
    for event_id, event in pending.items():  # Others were faster every time: they have it.
        answers[event_id] = Claim(handler, event, ClaimOutcome.IN_PROGRESS, wait=Wait.HELD)
    first_claims = sum(claim.granted and claim.attempt == 1 for claim in answers.values())
    claimant.new_expected = 2 * first_claims >= len(answers)
    return list(_in_order(events, answers))


def _look(
    transaction: Transaction,
    queries: Queries,
    claimant: Claimant,
    handler: Handler,
    events: list[SequencedEvent],
) -> Iterator[ClaimAttempt]:
    given = [{"id": e.event_id, "of_type": e.aggregate_type, "of_id": e.aggregate_id} for e in events]
    found = transaction.rows(queries["look"], handler=handler.name, g=as_rows(given))
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
            answer_lost=row.incarnation == claimant.incarnation
            and claimant.held_claims.is_lost((handler.name, event.event_id), row.token),
        )
        yield ClaimAttempt(event, aggregate, sequence, seen, row.last_sequence, decision)


def _write(
    transaction: Transaction,
    queries: Queries,
    claimant: Claimant,
    handler: Handler,
    attempts: list[ClaimAttempt],
    incarnation: str,
) -> Iterator[Claim]:
    grants = [attempt for attempt in attempts if attempt.granting]
    tokens = dict(
        zip(
            (attempt.event.event_id for attempt in grants),
            new_tokens(transaction, queries, len(grants)),
            strict=True,
        )
    )
    fresh = [attempt for attempt in grants if attempt.seen is None]
    renewed = [attempt for attempt in grants if attempt.seen is not None]
    closing = [attempt for attempt in attempts if not attempt.granting]
    common = grant_columns(handler, owner=claimant.owner, incarnation=incarnation)
    if renewed or closing:
        _lock(transaction, queries, handler, renewed + closing)
    leases: dict[str, int] = {}
    if fresh:
        given = as_rows([attempt.fresh_row(tokens[attempt.event.event_id]) for attempt in fresh])
        leases |= dict(transaction.rows(queries["grant_fresh"], g=given, **common))
    if renewed:
        given = as_rows([attempt.renewal_row(tokens[attempt.event.event_id]) for attempt in renewed])
        leases |= dict(transaction.rows(queries["grant_again"], g=given, **common))
    for attempt in grants:
        event_id = attempt.event.event_id
        if event_id in leases:
            yield attempt.answer(handler, token=tokens[event_id], lease_until=leases[event_id])
    yield from _close(transaction, queries, handler, closing)


def _lock(transaction: Transaction, queries: Queries, handler: Handler, attempts: list[ClaimAttempt]) -> None:
    given = [{"of_type": kind, "of_id": name} for kind, name in {attempt.aggregate for attempt in attempts}]
    transaction.rows(queries["lock_positions"], handler=handler.name, g=as_rows(given))


def _close(
    transaction: Transaction, queries: Queries, handler: Handler, attempts: list[ClaimAttempt]
) -> Iterator[Claim]:
    if not attempts:
        return
    given = as_rows([attempt.closing_row() for attempt in attempts])
    rows = transaction.rows(queries["close_unfinished"], handler=handler.name, g=given)
    closed = {row.event_id for row in rows}
    dead = [
        attempt
        for attempt in attempts
        if attempt.decision.write is ClaimState.DEAD and attempt.event.event_id in closed
    ]
    if dead:
        given_up = [attempt.event.event_id for attempt in dead]
        record_dead_letters(transaction, queries, handler.name, given_up)
    parked = [
        {"of_type": attempt.aggregate.type, "of_id": attempt.aggregate.id, "reached": attempt.sequence}
        for attempt in dead
    ]
    if parked and handler.gap_policy is GapPolicy.ORDERED:
        transaction.run(queries["advance"], handler=handler.name, g=as_rows(parked))
    yield from (attempt.answer(handler) for attempt in attempts if attempt.event.event_id in closed)


def check_claim(handler: Handler, event: SequencedEvent) -> bool:
    """True; raises InvalidArgument for a handler or an event that cannot be claimed with."""
    key_text("handler", handler.name, bytes_max=HANDLER_BYTES_MAX)
    return check_event(event)


def check_event(event: SequencedEvent) -> bool:
    """True; raises InvalidArgument for what cannot be claimed."""
    key_text("event_id", event.event_id)
    key_text("aggregate_type", event.aggregate_type, bytes_max=_TYPE_BYTES_MAX)
    key_text("aggregate_id", event.aggregate_id)
    if event.sequence_number is None or event.sequence_number < 1:
        raise InvalidArgument("sequence_number", "is required and starts at 1")
    return True


def _in_order(events: Sequence[SequencedEvent], answers: dict[str, Claim]) -> Iterator[Claim]:
    """Each event's answer; an event given twice is claimed once, and its second copy is in progress."""
    answered: set[str] = set()
    for event in events:
        claim = answers[event.event_id]
        if claim.granted and event.event_id in answered:
            yield Claim(claim.handler, event, ClaimOutcome.IN_PROGRESS, ClaimState.CLAIMED, wait=Wait.HELD)
        else:
            yield claim
        answered.add(event.event_id)

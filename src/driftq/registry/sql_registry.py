"""The registry on SQL: the same rules and nearly the same text on SQLite and PostgreSQL.

Time is the database's, see `driftq.sql.clock`: on PostgreSQL one clock judges the leases of many machines.
Batches are cut into transactions: of at most 64 claims on SQLite, so that no call holds its writer for long,
and of at most 512 on PostgreSQL. A transaction that PostgreSQL breaks to end a deadlock is repeated.

The work inside a transaction is functions: `driftq.registry.claiming`, `finishing` and `admin`.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Concatenate, ParamSpec, TypeVar

from driftq.errors import EventSuperseded
from driftq.forking import in_forked_child
from driftq.model.backoff import Backoff
from driftq.model.event import Aggregate
from driftq.registry import admin, finishing
from driftq.registry.claim import Claim, ClaimState, Failure, Resolution, SequencedEvent, StoredClaim
from driftq.registry.claiming import Claimant, check_claim, claim_events
from driftq.registry.handler import GapPolicy, Handler
from driftq.sql import Database, Dialect, Migrations, Queries, Transaction, perform, prepare, storable
from driftq.sql.gathered import Gathered

BATCH_MAX = 64
_BATCHES = {Dialect.SQLITE: BATCH_MAX, Dialect.POSTGRES: 512}
MIGRATIONS = Migrations.load("driftq.registry")

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Item = TypeVar("Item")
Beside = Callable[[Transaction, Sequence[Claim]], None]
"""Writes that are kept together with the marks of these claims."""


class _Together:
    """What concurrent callers of one registry do together."""

    def __init__(self) -> None:
        self.claims: Gathered[SequencedEvent, Claim] = Gathered(calls_max=BATCH_MAX)
        self.marks: Gathered[Claim, bool] = Gathered(calls_max=BATCH_MAX)

    @classmethod
    def on(cls, database: Database) -> "_Together | None":
        """On SQLite, where one transaction at a time writes anyway.

        On PostgreSQL a claim may wait for a lock of the very thread whose call would wait for that claim.
        """
        return cls() if database.dialect is Dialect.SQLITE else None


class SqlRegistry:
    """Claims keyed (handler, event_id), and how far each handler has come with each aggregate.

    Safe to share between threads. Every method raises DatabaseUnavailable while the database is away: the
    caller then acknowledges, counts and gives up nothing, and repeats the call later.

    A method that takes `transaction` joins it and commits or rolls back with it; otherwise it has its own.
    `owner` names this process for people; it fences nothing.
    """

    def __init__(
        self,
        database: Database,
        *,
        owner: str = "",
        backoff: Backoff | None = None,
        random: Random | None = None,
    ) -> None:
        prepare(database, [MIGRATIONS])
        self.database = database
        self.batch_max = _BATCHES[database.dialect]
        """How many claims one transaction takes."""
        self._queries = Queries.load("driftq.registry", database.renderer)
        self._claimant = Claimant(storable(owner))
        self._held_claims = self._claimant.held_claims
        self._backoff = backoff or Backoff()
        self._random = random or Random()  # noqa: S311 - for pauses
        self._together = _Together.on(database)
        in_forked_child(self._become_new)

    def _become_new(self) -> None:
        self._together = _Together.on(self.database)  # Who was at work stays the parent's.
        self._claimant.become_new()

    @property
    def incarnation(self) -> str:
        """The argument for `abandon` when this object's process has ended."""
        return self._claimant.incarnation

    def claim(self, handler: Handler, event: SequencedEvent) -> Claim:
        """Ask for the right to perform the handler's effect for this event."""
        if self._together is None:
            return self.claim_all(handler, [event])[0]
        check_claim(handler, event)
        return self._together.claims.call(
            handler, event.event_id, event, lambda events: self._claim_chunk(handler, events)
        )

    def claim_all(
        self, handler: Handler, events: Sequence[SequencedEvent], *, transaction: Transaction | None = None
    ) -> list[Claim]:
        """As many claims, each decided for itself, in one go. Answers in the order of the events."""
        if transaction is not None:
            return claim_events(transaction, self._queries, self._claimant, handler, events, named=False)
        return [claim for chunk in self._chunks(events) for claim in self._claim_chunk(handler, chunk)]

    def _claim_chunk(self, handler: Handler, events: Sequence[SequencedEvent]) -> list[Claim]:
        def grant(transaction: Transaction) -> list[Claim]:
            return claim_events(transaction, self._queries, self._claimant, handler, events, named=True)

        with self._held_claims.waiting({(handler.name, event.event_id) for event in events}):
            claims = perform(self.database, grant, planned_once=True)
            self._held_claims.keep(claim for claim in claims if claim.granted)
            return claims

    def heartbeat(self, claim: Claim) -> None:
        """Extend the lease from now. Raises LeaseLost: then stop the work, it cannot be finished."""
        self._raise_if(self.heartbeat_all([claim]))

    def heartbeat_all(self, claims: Sequence[Claim]) -> list[Claim]:
        """Extend many; returns those that are lost."""
        lost = [claim for part in self._chunks(claims) for claim in self._perform(finishing.heartbeat, part)]
        gone = {id(claim) for claim in lost}
        self._held_claims.keep(claim for claim in claims if id(claim) not in gone)
        return lost

    def mark_done(
        self, claim: Claim, *, result: str | None = None, transaction: Transaction | None = None
    ) -> None:
        """The effect has happened: finish the claim and advance the aggregate. Raises LeaseLost.

        `result` is kept with the mark, for duplicates.
        """
        if result is None:
            if self._together is not None and transaction is None:
                lost = self._together.marks.call(None, id(claim), claim, self._mark_gathered)
                self._raise_if([claim] if lost else [])
            else:
                self._raise_if(self.mark_done_all([claim], transaction=transaction))
        elif transaction is not None:
            self.keep_result(claim, result, transaction=transaction)
            self.mark_done_all([claim], transaction=transaction)
        else:
            perform(self.database, lambda own: self.mark_done(claim, result=result, transaction=own))
            self._held_claims.drop([claim])

    def keep_result(self, claim: Claim, result: str, *, transaction: Transaction) -> None:
        """Inside `apply`: what the effect gave, kept together with the mark."""
        finishing.keep_result(transaction, self._queries, claim, result)

    def result_of(self, handler: str, event_id: str) -> str | None:
        """What a finished effect gave; None if it gave nothing, is not finished or was forgotten."""
        return self._read(admin.result_of, handler, event_id)

    def mark_done_all(
        self,
        claims: Sequence[Claim],
        *,
        transaction: Transaction | None = None,
        beside: Beside | None = None,
    ) -> list[Claim]:
        """Finish many; returns those that are lost. In a caller's transaction the first lost one raises.

        `beside` writes in the transaction of the marks, for those claims that are not lost.
        """
        if transaction is not None:
            lost = finishing.mark_done(transaction, self._queries, claims)
            if lost:
                raise finishing.lease_lost(transaction, self._queries, lost[0])
            return lost
        lost = [claim for chunk in self._chunks(claims) for claim in self._mark_chunk(chunk, beside)]
        self._held_claims.drop(claims)
        return lost

    def _mark_gathered(self, claims: Sequence[Claim]) -> list[bool]:
        """For each whether it is lost."""
        gone = {id(claim) for claim in self.mark_done_all(claims)}
        return [id(claim) in gone for claim in claims]

    def _mark_chunk(self, claims: Sequence[Claim], beside: Beside | None) -> list[Claim]:
        def mark_all(transaction: Transaction) -> None:
            finishing.mark_all_done(transaction, self._queries, claims)
            if beside is not None:
                beside(transaction, claims)

        def mark_each(transaction: Transaction) -> list[Claim]:
            lost = finishing.mark_done(transaction, self._queries, claims)
            if beside is not None:
                gone = {id(claim) for claim in lost}
                beside(transaction, [claim for claim in claims if id(claim) not in gone])
            return lost

        try:
            perform(self.database, mark_all, planned_once=True)
        except finishing.NotAllHeld:
            return perform(self.database, mark_each)
        return []

    @contextmanager
    def apply(self, claim: Claim) -> Iterator[Transaction]:
        """A transaction for a transactional effect: the handler's SQL and the mark are kept together.

        Raises LeaseLost before the block or at its end, EventSuperseded if a newer event was done since the
        claim and only the newest state counts (the claim is then closed), WrongClaimState if it was applied
        before. The aggregate is locked meanwhile, so no other worker can take the event over; on SQLite no
        other connection can write at all, heartbeats included.
        """
        sequence = claim.event.sequence_number or 0
        with self.database.transaction() as transaction:
            last_sequence = finishing.begin(transaction, self._queries, claim)
            overtaken = claim.handler.gap_policy is GapPolicy.FULL_STATE and last_sequence >= sequence
            if overtaken:
                finishing.supersede(transaction, self._queries, claim)
            else:
                yield transaction
                self.mark_done_all([claim], transaction=transaction)
        self._held_claims.drop([claim])
        if overtaken:
            raise EventSuperseded(claim.event.event_id, sequence=sequence, last_sequence=last_sequence)

    def mark_failed(self, claim: Claim, *, error: str, retryable: bool = True) -> Failure:
        """The attempt failed: schedule the retry, or after the last one keep a dead letter."""
        delay_ms = self._backoff.full_jitter_ms(claim.attempt, self._random.random())
        failure = self._perform(
            finishing.mark_failed, claim, error=error, retryable=retryable, delay_ms=delay_ms
        )
        self._held_claims.drop([claim])
        return failure

    def mark_unknown(self, claim: Claim, *, error: str) -> None:
        """The worker does not know whether the effect happened: the claim waits for `resolve`."""
        self._perform(finishing.mark_unknown, claim, error=error)
        self._held_claims.drop([claim])

    def release(self, claim: Claim) -> None:
        """Give the claim back uncharged: the work was not begun."""
        self._perform(finishing.release, claim)
        self._held_claims.drop([claim])

    def release_all(self, claims: Sequence[Claim]) -> list[Claim]:
        """Give many back; returns those that are lost."""
        lost = [
            claim for part in self._chunks(claims) for claim in self._perform(finishing.release_all, part)
        ]
        self._held_claims.drop(claims)
        return lost

    def find(self, handler: str, event_id: str) -> StoredClaim:
        """What is stored; raises ClaimNotFound."""
        return self._read(admin.find, handler, event_id)

    def list_claims(
        self,
        state: ClaimState,
        *,
        handler: str | None = None,
        limit: int = 1000,
        after: tuple[str, str] | None = None,
    ) -> list[StoredClaim]:
        """Claims in this state, by handler and event id, after that pair."""
        return self._read(admin.list_claims, state, handler=handler, limit=limit, after=after)

    def page(
        self,
        states: Sequence[ClaimState] = admin.OPEN_STATES,
        *,
        handler: str | None = None,
        limit: int = 1000,
        after: admin.ClaimPlace | None = None,
    ) -> admin.ClaimPage:
        """A page of claims by index: open states, or finished ones with the newest first; not both kinds."""
        return self._read(admin.page, states=states, handler=handler, limit=limit, after=after)

    def due(self, handler: str, *, limit: int = 1000) -> list[StoredClaim]:
        """Claims that may be granted now although their events will not be delivered again."""
        return self._read(admin.due, handler, limit=limit)

    def counts(self, handler: str) -> dict[ClaimState, int]:
        """How many claims are unfinished, by state."""
        return self._read(admin.counts, handler)

    def report_unknown(self) -> int:
        """Turn abandoned claims of unknown effect into the state UNKNOWN, and say how many."""
        return self._perform(admin.report_unknown)

    def abandon(self, incarnation: str) -> int:
        """End the leases of a process that has ended; returns how many. See `driftq.registry.liveness`."""
        return self._perform(admin.abandon, incarnation)

    def requeue(self, handler: str, event_id: str, *, by: str) -> StoredClaim:
        """Bring a dead letter back, with all its attempts. Raises ClaimNotFound, WrongClaimState."""
        return self._perform(admin.requeue, handler, event_id, by=by)

    def resolve(self, handler: str, event_id: str, resolution: Resolution, *, by: str) -> StoredClaim:
        """Say what became of an unknown effect. Raises ClaimNotFound, WrongClaimState."""
        return self._perform(admin.resolve, handler, event_id, resolution, by=by)

    def last_sequence(self, handler: str, *, aggregate_type: str, aggregate_id: str) -> int:
        """The highest sequence that is done or parked; 0 for none."""
        return self._read(admin.last_sequence, handler, Aggregate(aggregate_type, aggregate_id))

    def last_sequences(self, handler: str, aggregates: Sequence[Aggregate]) -> dict[Aggregate, int]:
        """The same for many; aggregates without any are left out."""
        return self._read(admin.last_sequences, handler, aggregates)

    def skip_to(self, handler: str, *, aggregate_type: str, aggregate_id: str, sequence: int) -> None:
        """Take everything up to here as done, for a handler that joins an aggregate late. Never goes back."""
        self._perform(admin.skip_to, handler, Aggregate(aggregate_type, aggregate_id), sequence)

    def forget(self, *, older_than_ms: int, limit: int = 1000) -> int:
        """Delete finished claims of that age, a minute or more; returns how many. They stay stale."""
        return self._perform(admin.forget, older_than_ms=older_than_ms, limit=limit)

    def check(self) -> None:
        """Reach the database once."""
        self.database.check()

    def _perform(
        self,
        work: Callable[Concatenate[Transaction, Queries, Arguments], Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        """The work in a transaction of its own."""
        return perform(self.database, lambda transaction: work(transaction, self._queries, *args, **kwargs))

    def _read(
        self,
        work: Callable[Concatenate[Transaction, Queries, Arguments], Result],
        *args: Arguments.args,
        **kwargs: Arguments.kwargs,
    ) -> Result:
        with self.database.snapshot() as transaction:
            return work(transaction, self._queries, *args, **kwargs)

    def _raise_if(self, lost: list[Claim]) -> None:
        if lost:
            self._held_claims.drop(lost)
            raise self._read(finishing.lease_lost, lost[0])

    def _chunks(self, items: Sequence[Item]) -> Iterator[Sequence[Item]]:
        return (items[start : start + self.batch_max] for start in range(0, len(items), self.batch_max))

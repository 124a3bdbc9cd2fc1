"""The registry on SQL: the same rules and nearly the same text on SQLite and PostgreSQL.

Time is the database's, see `driftq.sql.clock`: on PostgreSQL the leases of many machines are judged by one
clock. Batches are cut into transactions of at most 64 claims, so that nobody holds SQLite's writer for
long. A transaction that PostgreSQL breaks to end a deadlock is repeated.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import TypeVar

from driftq.errors import EventSuperseded
from driftq.forking import in_forked_child
from driftq.model.backoff import Backoff
from driftq.registry.admin import Keeping
from driftq.registry.claim import Claim, ClaimState, Failure, Resolution, SequencedEvent, StoredClaim
from driftq.registry.claiming import Claiming
from driftq.registry.finishing import Finishing, NotAllHeld
from driftq.registry.handler import GapPolicy, Handler
from driftq.registry.held import HeldClaims
from driftq.sql import Database, Migrations, Queries, Transaction, perform, prepare, storable

BATCH_MAX = 64
MIGRATIONS = Migrations.load("driftq.registry")

Result = TypeVar("Result")
Item = TypeVar("Item")


class SqlRegistry:
    """Implements `driftq.registry.Registry`. `owner` names this process for people; it fences nothing."""

    def __init__(
        self,
        database: Database,
        *,
        owner: str = "",
        backoff: Backoff | None = None,
        random: Random | None = None,
    ) -> None:
        prepare(database, [MIGRATIONS])
        queries = Queries.load("driftq.registry", database.spelling)
        self.database = database
        self._held = HeldClaims()
        self._claiming = Claiming(queries, owner=storable(owner), held=self._held)
        self._finishing = Finishing(queries, backoff=backoff or Backoff(), random=random or Random())
        self._keeping = Keeping(queries)
        in_forked_child(self._begin_anew)

    def _begin_anew(self) -> None:
        """Under the parent's name its grants would look like our own, with answers that were lost."""
        self._held.forget()
        self._claiming.take_new_name()

    @property
    def incarnation(self) -> str:
        """What `abandon` is told when this object's process is gone."""
        return self._claiming.incarnation

    def claim(self, handler: Handler, event: SequencedEvent) -> Claim:
        return self.claim_all(handler, [event])[0]

    def claim_all(
        self, handler: Handler, events: Sequence[SequencedEvent], *, transaction: Transaction | None = None
    ) -> list[Claim]:
        if transaction is not None:
            return self._claiming.claim(transaction, handler, events, named=False)
        return [claim for chunk in _chunks(events) for claim in self._claim_chunk(handler, chunk)]

    def _claim_chunk(self, handler: Handler, events: Sequence[SequencedEvent]) -> list[Claim]:
        with self._held.waiting({(handler.name, event.event_id) for event in events}):
            claims = self._perform(
                lambda transaction: self._claiming.claim(transaction, handler, events, named=True)
            )
            self._held.keep(claim for claim in claims if claim.granted)
            return claims

    def heartbeat(self, claim: Claim) -> None:
        self._raise_if(self.heartbeat_all([claim]))

    def heartbeat_all(self, claims: Sequence[Claim]) -> list[Claim]:
        lost = self._in_chunks(claims, self._finishing.heartbeat)
        self._held.keep(claim for claim in claims if claim not in lost)
        return lost

    def mark_done(
        self, claim: Claim, *, result: str | None = None, transaction: Transaction | None = None
    ) -> None:
        if result is None:
            self._raise_if(self.mark_done_all([claim], transaction=transaction))
        elif transaction is not None:
            self.keep_result(claim, result, transaction=transaction)
            self.mark_done_all([claim], transaction=transaction)
        else:
            self._perform(lambda own: self.mark_done(claim, result=result, transaction=own))
            self._held.drop([claim])

    def keep_result(self, claim: Claim, result: str, *, transaction: Transaction) -> None:
        self._finishing.keep_result(transaction, claim, result)

    def result_of(self, handler: str, event_id: str) -> str | None:
        return self._read(lambda transaction: self._keeping.result_of(transaction, handler, event_id))

    def mark_done_all(
        self, claims: Sequence[Claim], *, transaction: Transaction | None = None
    ) -> list[Claim]:
        if transaction is not None:
            lost = self._finishing.mark_done(transaction, claims)
            if lost:
                raise self._finishing.lost(transaction, lost[0])
            return lost
        lost = [claim for chunk in _chunks(claims) for claim in self._mark_chunk(chunk)]
        self._held.drop(claims)
        return lost

    def _mark_chunk(self, claims: Sequence[Claim]) -> list[Claim]:
        try:
            self._perform(lambda transaction: self._finishing.mark_all_done(transaction, claims))
        except NotAllHeld:
            return self._perform(lambda transaction: self._finishing.mark_done(transaction, claims))
        return []

    @contextmanager
    def apply(self, claim: Claim) -> Iterator[Transaction]:
        sequence = claim.event.sequence_number or 0
        with self.database.transaction() as transaction:
            last_sequence = self._finishing.begin(transaction, claim)
            overtaken = claim.handler.gap_policy is GapPolicy.FULL_STATE and last_sequence >= sequence
            if overtaken:
                self._finishing.supersede(transaction, claim)
            else:
                yield transaction
                self.mark_done_all([claim], transaction=transaction)
        self._held.drop([claim])
        if overtaken:
            raise EventSuperseded(claim.event.event_id, sequence=sequence, last_sequence=last_sequence)

    def mark_failed(self, claim: Claim, *, error: str, retryable: bool = True) -> Failure:
        failure = self._perform(
            lambda transaction: self._finishing.mark_failed(
                transaction, claim, error=error, retryable=retryable
            )
        )
        self._held.drop([claim])
        return failure

    def mark_unknown(self, claim: Claim, *, error: str) -> None:
        self._perform(lambda transaction: self._finishing.mark_unknown(transaction, claim, error=error))
        self._held.drop([claim])

    def release(self, claim: Claim) -> None:
        self._perform(lambda transaction: self._finishing.release(transaction, claim))
        self._held.drop([claim])

    def find(self, handler: str, event_id: str) -> StoredClaim:
        return self._read(lambda transaction: self._keeping.find(transaction, handler, event_id))

    def list_claims(
        self,
        state: ClaimState,
        *,
        handler: str | None = None,
        limit: int = 1000,
        after: tuple[str, str] | None = None,
    ) -> list[StoredClaim]:
        return self._read(
            lambda transaction: self._keeping.list_claims(
                transaction, state, handler=handler, limit=limit, after=after
            )
        )

    def due(self, handler: str, *, limit: int = 1000) -> list[StoredClaim]:
        return self._read(lambda transaction: self._keeping.due(transaction, handler, limit=limit))

    def counts(self, handler: str) -> dict[ClaimState, int]:
        return self._read(lambda transaction: self._keeping.counts(transaction, handler))

    def report_unknown(self) -> int:
        return self._perform(self._keeping.report_unknown)

    def abandon(self, incarnation: str) -> int:
        """End the leases of a process that is known to be gone; returns how many. See `presence`."""
        return self._perform(lambda transaction: self._keeping.abandon(transaction, incarnation))

    def requeue(self, handler: str, event_id: str, *, by: str) -> StoredClaim:
        return self._perform(lambda transaction: self._keeping.requeue(transaction, handler, event_id, by=by))

    def resolve(self, handler: str, event_id: str, resolution: Resolution, *, by: str) -> StoredClaim:
        return self._perform(
            lambda transaction: self._keeping.resolve(transaction, handler, event_id, resolution, by=by)
        )

    def last_sequence(self, handler: str, *, aggregate_type: str, aggregate_id: str) -> int:
        return self._read(
            lambda transaction: self._keeping.last_sequence(
                transaction, handler, aggregate_type=aggregate_type, aggregate_id=aggregate_id
            )
        )

    def skip_to(self, handler: str, *, aggregate_type: str, aggregate_id: str, sequence: int) -> None:
        self._perform(
            lambda transaction: self._keeping.skip_to(
                transaction,
                handler,
                aggregate_type=aggregate_type,
                aggregate_id=aggregate_id,
                sequence=sequence,
            )
        )

    def forget(self, *, older_than_ms: int, limit: int = 1000) -> int:
        return self._perform(
            lambda transaction: self._keeping.forget(transaction, older_than_ms=older_than_ms, limit=limit)
        )

    def check(self) -> None:
        self.database.check()

    def _perform(self, work: Callable[[Transaction], Result]) -> Result:
        return perform(self.database, work)

    def _read(self, work: Callable[[Transaction], Result]) -> Result:
        with self.database.snapshot() as transaction:
            return work(transaction)

    def _in_chunks(
        self, claims: Sequence[Claim], work: Callable[[Transaction, Sequence[Claim]], list[Claim]]
    ) -> list[Claim]:
        lost: list[Claim] = []
        for chunk in _chunks(claims):

            def on_chunk(transaction: Transaction, chunk: Sequence[Claim] = chunk) -> list[Claim]:
                return work(transaction, chunk)

            lost += perform(self.database, on_chunk)
        return lost

    def _raise_if(self, lost: list[Claim]) -> None:
        if lost:
            self._held.drop(lost)
            raise self._read(lambda transaction: self._finishing.lost(transaction, lost[0]))


def _chunks(sequence: Sequence[Item]) -> Iterator[Sequence[Item]]:
    return (sequence[start : start + BATCH_MAX] for start in range(0, len(sequence), BATCH_MAX))

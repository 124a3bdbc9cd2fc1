"""One transaction per batch of groups: reserve numbers, check ids, apply the rule, store.

A group is the events of one aggregate in one request; small groups are packed into one batch.

Nearly all events are new. So a batch is first stored as if all its events were, without a lookup of the ids:
the tables' unique constraints refuse a stored id, and the rule is applied to the reserved numbers. Unless
both agree, the transaction is rolled back and the batch is repeated with a lookup of the ids; so are some
batches after it, because repeated events rarely come alone.

The numbering serializes the writers of one aggregate. The tables' unique constraints catch the rest, such as
one event_id on two aggregates at the same moment; then the whole transaction is repeated, and the lookup
finds what the other one stored.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlalchemy.exc import IntegrityError

from driftq.errors import TransactionConflict
from driftq.eventstore.append.rows import EventRows, NewEvents
from driftq.eventstore.append.rule import Answer, EventDecision, Group, KnownEvent, decide
from driftq.eventstore.append.sequences import allocator_for, stored_heads
from driftq.eventstore.options import AllocatorMode, MismatchMode
from driftq.eventstore.outcome import Append
from driftq.model import Aggregate
from driftq.sql import Database, Queries, Transaction, as_rows, perform

_TRIES = 20
_LOOK_FIRST = 32
"""The number of batches with a lookup of ids after one that held a stored id."""
_OPTIMISTIC = frozenset({AllocatorMode.LEGACY, AllocatorMode.S3})
"""The number is that of the newest stored event plus one; the loser of a race gets a conflict."""

Commands = list[tuple[int, Append]]
"""Each with its place among all that were given."""


def by_aggregate(requests: Sequence[Sequence[Append]]) -> Iterator[tuple[Aggregate, Commands]]:
    """The commands of each request and aggregate, in order of first appearance."""
    index = 0
    for commands in requests:
        if len(commands) == 1:  # As most callers send them.
            yield commands[0].event.aggregate, [(index, commands[0])]
            index += 1
            continue
        groups: dict[Aggregate, Commands] = {}
        for command in commands:
            groups.setdefault(command.event.aggregate, []).append((index, command))
            index += 1
        yield from groups.items()


def batches(groups: Iterable[Group], *, events_max: int) -> Iterator[list[Group]]:
    """Groups that share a transaction. A group is never split: one above the limit has its own."""
    batch: list[Group] = []
    size = 0
    for group in groups:
        if batch and size + len(group) > events_max:
            yield batch
            batch, size = [], 0
        batch.append(group)
        size += len(group)
    if batch:
        yield batch


class _NothingToStore(Exception):
    """All are duplicates or refused: the reservation is dropped and nothing is written."""

    def __init__(self, answers: list[list[Answer]]) -> None:
        super().__init__()
        self.answers = answers


class _NotAllNew(Exception):
    """The optimistic insert differs from the rule's decision, and is rolled back."""


class EventWriter:
    """Stores groups of drafts; each group is all or nothing."""

    def __init__(
        self,
        database: Database,
        queries: Queries,
        *,
        mode: AllocatorMode,
        mismatch: MismatchMode,
        handler_prefix: str,
    ) -> None:
        self._database = database
        self._queries = queries
        self._mode = mode
        self._mismatch = mismatch
        self._rows = EventRows(queries, handler_prefix=handler_prefix)
        self._numbering = allocator_for(database.dialect, queries, handler_prefix=handler_prefix)
        self._look_first = 0

    def store(self, groups: Sequence[Group]) -> list[list[Answer]]:
        """Answers for each group, committed on return; raises when the database fails."""
        assumed = self._heads(groups) if self._mode in _OPTIMISTIC else None
        if self._mode is not AllocatorMode.OFF and self._look_first == 0:
            new_events = NewEvents.of(groups, self._database.dialect)
            try:
                return perform(
                    self._database,
                    lambda transaction: self._store_new(transaction, groups, assumed, new_events),
                    planned_once=True,
                )
            except (_NotAllNew, IntegrityError):
                self._look_first = _LOOK_FIRST
        self._look_first = max(0, self._look_first - 1)
        for _ in range(_TRIES):
            try:
                return perform(
                    self._database, lambda transaction: self.store_in(transaction, groups, assumed)
                )
            except _NothingToStore as nothing:
                return nothing.answers
            except IntegrityError:
                continue  # Another writer committed first: the next try will see its events.
        raise TransactionConflict(self._database.address, cause="other writers kept storing the same events")

    def store_in(
        self,
        transaction: Transaction,
        groups: Sequence[Group],
        assumed: Mapping[Aggregate, int] | None = None,
    ) -> list[list[Answer]]:
        """One try, inside a transaction: answers that hold once it commits."""
        counts = self._counts(groups)
        heads = self._numbering.reserve(transaction, counts)
        decision = self._decide(groups, heads, assumed, known=self._known_events(transaction, groups))
        if not decision.fresh:
            raise _NothingToStore(decision.answers)
        reserved = {aggregate: heads[aggregate] + count for aggregate, count in counts.items()}
        self._numbering.settle(transaction, reserved=reserved, used=decision.heads)
        self._rows.insert(transaction, decision.fresh)
        return decision.answers

    def _store_new(
        self,
        transaction: Transaction,
        groups: Sequence[Group],
        assumed: Mapping[Aggregate, int] | None,
        new_events: NewEvents,
    ) -> list[list[Answer]]:
        """The same for events that are all new; raises, and is rolled back, when they are not."""
        heads = self._rows.insert_new(transaction, new_events)
        decision = self._decide(groups, heads, assumed, known={})
        if len(decision.fresh) < len(new_events.drafts):
            raise _NotAllNew
        return decision.answers

    def _decide(
        self,
        groups: Sequence[Group],
        heads: Mapping[Aggregate, int],
        assumed: Mapping[Aggregate, int] | None,
        *,
        known: Mapping[str, KnownEvent],
    ) -> EventDecision:
        return decide(groups, known=known, heads=heads, mismatch=self._mismatch, assumed=assumed)

    def _counts(self, groups: Sequence[Group]) -> dict[Aggregate, int]:
        """How many numbers to reserve for each aggregate: none when the caller supplies them."""
        counts: dict[Aggregate, int] = {}
        for group in groups:
            wanted = 0 if self._mode is AllocatorMode.OFF else len(group)
            counts[group[0].aggregate] = counts.get(group[0].aggregate, 0) + wanted
        return counts

    def _heads(self, groups: Sequence[Group]) -> dict[Aggregate, int]:
        with self._database.snapshot() as snapshot:
            return stored_heads(snapshot, self._queries, {group[0].aggregate for group in groups})

    def _known_events(self, transaction: Transaction, groups: Sequence[Group]) -> dict[str, KnownEvent]:
        ids = {each.event_id for group in groups for each in group}
        found = transaction.rows(self._queries["known"], g=as_rows([{"event_id": each} for each in ids]))
        return {row.event_id: KnownEvent(row.content_hash, row.sequence_number) for row in found}

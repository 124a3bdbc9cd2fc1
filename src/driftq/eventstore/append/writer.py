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

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from sqlalchemy.exc import IntegrityError

from driftq.errors import TransactionConflict
from driftq.eventstore.append.draft import Draft
from driftq.eventstore.append.rule import Answer, EventDecision, Group, KnownEvent, Numbered, decide
from driftq.eventstore.append.sequences import allocator_for, heads_in, stored_heads
from driftq.eventstore.options import AllocatorMode, MismatchMode
from driftq.eventstore.stored import StoredEvent
from driftq.model import Aggregate
from driftq.sql import Database, Dialect, Queries, Transaction, as_rows, perform

_TRIES = 20
_LOOK_FIRST = 32
"""The number of batches with a lookup of ids after one that held a stored id."""
_OPTIMISTIC = frozenset({AllocatorMode.LEGACY, AllocatorMode.S3})
"""The number is that of the newest stored event plus one; the loser of a race gets a conflict."""

_COLUMNS = tuple(
    name for name in StoredEvent.__struct_fields__ if name not in ("position", "kind", "sequence_number")
)
"""The columns of the table that a draft fills. The kind stands in the metadata."""
_draft_columns = attrgetter(
    *(
        {"aggregate_type": "aggregate.type", "aggregate_id": "aggregate.id"}.get(name, name)
        for name in _COLUMNS
    )
)
_Row: Any = msgspec.defstruct(
    "_Row",
    [("sequence_number", int), ("nth", int), ("events", int), ("place", int), *_COLUMNS],
    gc=False,
)
"""One event in PostgreSQL's form; each statement uses some of the first three fields.

`nth` counts the events of one aggregate in the batch; `events` is their number, in the first of them.
"""


class NothingToStore(Exception):
    """All are duplicates or refused: the reservation is dropped and nothing is written."""

    def __init__(self, answers: list[list[Answer]]) -> None:
        super().__init__()
        self.answers = answers


class _NotAllNew(Exception):
    """The optimistic insert differs from the rule's decision, and is rolled back."""


class NewEvents(msgspec.Struct, frozen=True):
    """New events, in the form that the writer stores.

    Making one costs CPU, so it is done before the transaction.
    """

    drafts: list[Draft]
    given: str | list[tuple[Any, ...]]

    @classmethod
    def of(cls, groups: Sequence[Group], dialect: Dialect) -> "NewEvents":
        drafts = sorted((each for group in groups for each in group), key=lambda each: each.index)
        given = _counted(drafts) if dialect is Dialect.POSTGRES else [_draft_columns(each) for each in drafts]
        return cls(drafts, given)


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
        self._handler_prefix = handler_prefix
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
            except NothingToStore as nothing:
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
            raise NothingToStore(decision.answers)
        reserved = {aggregate: heads[aggregate] + count for aggregate, count in counts.items()}
        self._numbering.settle(transaction, reserved=reserved, used=decision.heads)
        self._insert(transaction, decision.fresh)
        return decision.answers

    def _store_new(
        self,
        transaction: Transaction,
        groups: Sequence[Group],
        assumed: Mapping[Aggregate, int] | None,
        new_events: NewEvents,
    ) -> list[list[Answer]]:
        """The same for events that are all new; raises, and is rolled back, when they are not."""
        heads = self._insert_new(transaction, new_events)
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

    def _insert(self, transaction: Transaction, fresh: Sequence[Numbered]) -> None:
        """Store them under their numbers, in the order in which they were given."""
        fresh = sorted(fresh, key=lambda each: each.draft.index)
        statement = self._queries["store"]
        if transaction.dialect is Dialect.SQLITE:
            transaction.change_each(statement, [_in_order(each) for each in fresh])
            self._place(transaction, len(fresh))
        else:
            transaction.run(statement, g=as_rows([_row(each.draft, each.sequence_number) for each in fresh]))

    def _insert_new(self, transaction: Transaction, new_events: NewEvents) -> dict[Aggregate, int]:
        """Number and store them; returns the earlier heads of the aggregates. Those left out had no event."""
        statement = self._queries["store_new"]
        if isinstance(new_events.given, str):
            return heads_in(
                transaction.rows(statement, g=new_events.given, handler_prefix=self._handler_prefix)
            )
        transaction.change_each(statement, new_events.given)
        self._place(transaction, len(new_events.drafts))
        newest = transaction.look_up(self._queries["newest_numbers"], [len(new_events.drafts)])
        heads: dict[Aggregate, int] = {}
        for draft, (number,) in zip(new_events.drafts, reversed(newest), strict=True):
            heads.setdefault(draft.aggregate, number - 1)
        return heads

    def _place(self, transaction: Transaction, events: int) -> None:
        """Give stored events their log positions; on PostgreSQL only the sealer sees the order of commits."""
        transaction.look_up(self._queries["place_stored"], [events])


def _counted(drafts: Sequence[Draft]) -> str:
    """Rows for PostgreSQL with their index within their aggregate."""
    firsts: dict[Aggregate, Any] = {}
    rows: list[Any] = []
    for each in drafts:
        row = _row(each)
        first = firsts.setdefault(each.aggregate, row)
        first.events += 1
        row.nth = first.events
        rows.append(row)
    return as_rows(rows)


def _row(draft: Draft, sequence_number: int = 0) -> Any:
    return _Row(sequence_number, 0, 0, draft.index, *_draft_columns(draft))


def _in_order(numbered: Numbered) -> tuple[Any, ...]:
    """In the order of the parameters of `store (sqlite)`: the columns, then the number."""
    return (*_draft_columns(numbered.draft), numbered.sequence_number)

"""One transaction per batch of appends: reserve numbers, check ids, apply the rule, store.

PostgreSQL keeps writers of one aggregate apart by the allocator's row, SQLite by having one writer. What
slips through, such as one event_id on two aggregates at one moment, is caught by the tables' own uniqueness;
then the whole transaction is done again and the check finds what the other one stored. Numbers are reserved
inside the transaction that uses them, so none is ever lost.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.exc import IntegrityError

from driftq.errors import TransactionConflict
from driftq.eventstore.draft import Draft
from driftq.eventstore.options import AllocatorMode, MismatchMode
from driftq.eventstore.rule import Answer, Decision, Group, Known, Numbered, decide
from driftq.model import Aggregate
from driftq.sql import Database, Dialect, Queries, Transaction, as_rows, perform

_TRIES = 20


class _NothingToStore(Exception):
    """All are duplicates or refused: the reservation is dropped and nothing is written."""

    def __init__(self, answers: list[list[Answer]]) -> None:
        super().__init__()
        self.answers = answers


class Writer:
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

    def store(self, groups: Sequence[Group]) -> list[list[Answer]]:
        """Answers for each group, all of them true when this returns; raises when the database fails."""
        assumed = self._heads(groups) if self._mode.is_optimistic else None
        for _ in range(_TRIES):
            try:
                return perform(
                    self._database, lambda transaction: self.store_in(transaction, groups, assumed)
                )
            except _NothingToStore as nothing:
                return nothing.answers
            except IntegrityError:
                continue  # Another writer was there first, and is committed now: the next try will see it.
        raise TransactionConflict(self._database.address, cause="others kept storing the same events")

    def store_in(
        self,
        transaction: Transaction,
        groups: Sequence[Group],
        assumed: Mapping[Aggregate, int] | None = None,
    ) -> list[list[Answer]]:
        """One try, inside a transaction: answers that become true with its commit."""
        counts = self._counts(groups)
        heads = self._reserve(transaction, counts)
        decision = decide(
            groups,
            known=self._known(transaction, groups),
            heads=heads,
            mismatch=self._mismatch,
            assumed=assumed,
        )
        if not decision.fresh:
            raise _NothingToStore(decision.answers)
        self._give_back(transaction, decision, {key: heads[key] + counts[key] for key in counts})
        self._insert(transaction, sorted(decision.fresh, key=lambda each: each.draft.place))
        return decision.answers

    def _counts(self, groups: Sequence[Group]) -> dict[Aggregate, int]:
        """How many numbers to reserve for each aggregate: none when the caller brings them."""
        counts: dict[Aggregate, int] = {}
        for group in groups:
            wanted = 0 if self._mode is AllocatorMode.OFF else len(group)
            counts[group[0].aggregate] = counts.get(group[0].aggregate, 0) + wanted
        return counts

    def _heads(self, groups: Sequence[Group]) -> dict[Aggregate, int]:
        aggregates = {group[0].aggregate for group in groups}
        with self._database.snapshot() as snapshot:
            found = snapshot.rows(self._queries["heads"], g=as_rows([_key(each) for each in aggregates]))
        return {Aggregate(row.aggregate_type, row.aggregate_id): row.head for row in found}

    def _reserve(self, transaction: Transaction, counts: Mapping[Aggregate, int]) -> dict[Aggregate, int]:
        wanted = [{**_key(aggregate), "events": count} for aggregate, count in counts.items()]
        held = transaction.rows(
            self._queries["reserve"], g=as_rows(wanted), handler_prefix=self._handler_prefix
        )
        return {Aggregate(row.aggregate_type, row.aggregate_id): row.head for row in held}

    def _known(self, transaction: Transaction, groups: Sequence[Group]) -> dict[str, Known]:
        ids = {each.event_id for group in groups for each in group}
        found = transaction.rows(self._queries["known"], g=as_rows([{"event_id": each} for each in ids]))
        return {row.event_id: Known(row.content_hash, row.sequence_number) for row in found}

    def _give_back(
        self, transaction: Transaction, decision: Decision, reserved: Mapping[Aggregate, int]
    ) -> None:
        """Set right what duplicates and refusals did not use, and what a caller numbered."""
        off = [
            {**_key(aggregate), "last_sequence": decision.heads[aggregate]}
            for aggregate, last in reserved.items()
            if decision.heads[aggregate] != last
        ]
        if off:
            transaction.run(self._queries["give_back"], g=as_rows(off), handler_prefix=self._handler_prefix)

    def _insert(self, transaction: Transaction, fresh: Sequence[Numbered]) -> None:
        rows = [{"place": place, **_row(each.draft, each)} for place, each in enumerate(fresh)]
        statement = self._queries["store"]
        if transaction.dialect is Dialect.SQLITE:
            transaction.connection.execute(statement.text, rows)
        else:
            transaction.run(statement, g=as_rows(rows))


def _key(aggregate: Aggregate) -> dict[str, Any]:
    return {"aggregate_type": aggregate.type, "aggregate_id": aggregate.id}


def _row(draft: Draft, numbered: Numbered) -> dict[str, Any]:
    return {
        "event_id": draft.event_id,
        "aggregate_type": draft.aggregate.type,
        "aggregate_id": draft.aggregate.id,
        "sequence_number": numbered.sequence_number,
        "event_type": draft.event_type,
        "operation": draft.operation.value,
        "occurred_at_us": draft.occurred_at_us,
        "payload": draft.payload,
        "metadata": draft.metadata,
        "schema_version": draft.schema_version,
        "content_hash": draft.content_hash,
    }

"""One transaction per batch of appends: reserve numbers, check ids, apply the rule, store.

Writers of one aggregate are kept apart by its numbering. What slips through, such as one event_id on two
aggregates at one moment, is caught by the tables' own uniqueness; then the whole transaction is done again
and the check finds what the other one stored.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.exc import IntegrityError

from driftq.errors import TransactionConflict
from driftq.eventstore.numbering import numbering_for, stored_heads
from driftq.eventstore.options import AllocatorMode, MismatchMode
from driftq.eventstore.rule import Answer, Group, Known, Numbered, decide
from driftq.model import Aggregate
from driftq.sql import Database, Dialect, Queries, Transaction, as_rows, perform

_TRIES = 20
_COLUMNS = (
    "event_id",
    "aggregate_type",
    "aggregate_id",
    "sequence_number",
    "event_type",
    "operation",
    "occurred_at_us",
    "payload",
    "metadata",
    "schema_version",
    "content_hash",
)


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
        self._numbering = numbering_for(database.dialect, queries, handler_prefix=handler_prefix)

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
        heads = self._numbering.reserve(transaction, counts)
        decision = decide(
            groups,
            known=self._known(transaction, groups),
            heads=heads,
            mismatch=self._mismatch,
            assumed=assumed,
        )
        if not decision.fresh:
            raise _NothingToStore(decision.answers)
        reserved = {aggregate: heads[aggregate] + count for aggregate, count in counts.items()}
        self._numbering.settle(transaction, reserved=reserved, used=decision.heads)
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
        with self._database.snapshot() as snapshot:
            return stored_heads(snapshot, self._queries, {group[0].aggregate for group in groups})

    def _known(self, transaction: Transaction, groups: Sequence[Group]) -> dict[str, Known]:
        ids = {each.event_id for group in groups for each in group}
        found = transaction.rows(self._queries["known"], g=as_rows([{"event_id": each} for each in ids]))
        return {row.event_id: Known(row.content_hash, row.sequence_number) for row in found}

    def _insert(self, transaction: Transaction, fresh: Sequence[Numbered]) -> None:
        rows = [_row(each) for each in fresh]
        statement = self._queries["store"]
        if transaction.dialect is Dialect.SQLITE:
            # The driver's own loop: SQLAlchemy would prepare each row's parameters in Python.
            transaction.connection.exec_driver_sql(statement.text.text, rows)
        else:
            named = [dict(zip(_COLUMNS, row, strict=True), place=place) for place, row in enumerate(rows)]
            transaction.run(statement, g=as_rows(named))


def _row(numbered: Numbered) -> tuple[Any, ...]:
    """What is stored, in the order of `_COLUMNS`."""
    draft = numbered.draft
    return (
        draft.event_id,
        *draft.aggregate,
        numbered.sequence_number,
        draft.event_type,
        draft.operation.value,
        draft.occurred_at_us,
        draft.payload,
        draft.metadata,
        draft.schema_version,
        draft.content_hash,
    )

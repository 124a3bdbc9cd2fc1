"""How a writer locks an aggregate and reads its head.

SQLite has one writer at a time, so reading the newest event is enough. PostgreSQL has many: each reserves its
numbers in the allocator's row, which locks the aggregate for others until the transaction ends. Either way
the numbers belong to the transaction that uses them: when it fails, none is used.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from driftq.model import Aggregate
from driftq.sql import Dialect, Queries, Transaction, as_rows


class SequenceAllocator(Protocol):
    def reserve(self, transaction: Transaction, counts: Mapping[Aggregate, int]) -> dict[Aggregate, int]:
        """The head of each aggregate, which does not move until the transaction ends."""

    def settle(
        self, transaction: Transaction, *, reserved: Mapping[Aggregate, int], used: Mapping[Aggregate, int]
    ) -> None:
        """Correct a reservation of which not all numbers were used."""


class SqliteAllocator:
    """Nothing to lock and nothing to correct."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def reserve(self, transaction: Transaction, counts: Mapping[Aggregate, int]) -> dict[Aggregate, int]:
        return stored_heads(transaction, self._queries, counts)

    def settle(
        self, transaction: Transaction, *, reserved: Mapping[Aggregate, int], used: Mapping[Aggregate, int]
    ) -> None:
        pass


class PostgresAllocator:
    """Rows of the allocator, in a namespace of their own for each handler prefix."""

    def __init__(self, queries: Queries, *, handler_prefix: str) -> None:
        self._queries = queries
        self._handler_prefix = handler_prefix

    def reserve(self, transaction: Transaction, counts: Mapping[Aggregate, int]) -> dict[Aggregate, int]:
        wanted = [{**_key(aggregate), "events": count} for aggregate, count in counts.items()]
        held = transaction.rows(
            self._queries["reserve"], g=as_rows(wanted), handler_prefix=self._handler_prefix
        )
        return heads_in(held)

    def settle(
        self, transaction: Transaction, *, reserved: Mapping[Aggregate, int], used: Mapping[Aggregate, int]
    ) -> None:
        wrong = [
            {**_key(aggregate), "last_sequence": used[aggregate]}
            for aggregate, last in reserved.items()
            if used[aggregate] != last
        ]
        if wrong:
            transaction.run(self._queries["give_back"], g=as_rows(wrong), handler_prefix=self._handler_prefix)


def allocator_for(dialect: Dialect, queries: Queries, *, handler_prefix: str) -> SequenceAllocator:
    if dialect is Dialect.SQLITE:
        return SqliteAllocator(queries)
    return PostgresAllocator(queries, handler_prefix=handler_prefix)


def stored_heads(
    transaction: Transaction, queries: Queries, aggregates: Iterable[Aggregate]
) -> dict[Aggregate, int]:
    """The number of the newest stored event of each aggregate, 0 for none."""
    return heads_in(transaction.rows(queries["heads"], g=as_rows([_key(each) for each in aggregates])))


def heads_in(rows: Iterable[Any]) -> dict[Aggregate, int]:
    """From rows of type, id and head."""
    return {Aggregate(aggregate_type, aggregate_id): head for aggregate_type, aggregate_id, head in rows}


def _key(aggregate: Aggregate) -> dict[str, Any]:
    return {"aggregate_type": aggregate.type, "aggregate_id": aggregate.id}

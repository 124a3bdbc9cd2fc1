"""Drafts on their way into the table, many at once."""

from collections.abc import Sequence
from typing import Any

import msgspec

from driftq.eventstore.draft import Draft
from driftq.eventstore.numbering import heads_in
from driftq.eventstore.rule import Group, Numbered
from driftq.model import Aggregate
from driftq.sql import Dialect, Queries, Transaction, as_rows


class _Row(msgspec.Struct, gc=False):
    """What PostgreSQL is told of one event; which of the first three it needs is the statement's matter.

    `nth` counts the events of one aggregate among those given; the first of them knows how many there are.
    """

    sequence_number: int
    nth: int
    events: int
    place: int
    event_id: str
    aggregate_type: str
    aggregate_id: str
    event_type: str
    operation: str
    occurred_at_us: int
    payload: str
    metadata: str
    schema_version: str
    content_hash: str


class Rows:
    def __init__(self, queries: Queries, *, handler_prefix: str) -> None:
        self._queries = queries
        self._handler_prefix = handler_prefix

    def insert(self, transaction: Transaction, fresh: Sequence[Numbered]) -> None:
        """Store them under their numbers, in the order in which they were given."""
        fresh = sorted(fresh, key=lambda each: each.draft.place)
        statement = self._queries["store"]
        if transaction.dialect is Dialect.SQLITE:
            transaction.change_each(statement, [_in_order(each) for each in fresh])
        else:
            transaction.run(statement, g=as_rows([_row(each.draft, each.sequence_number) for each in fresh]))

    def insert_unseen(self, transaction: Transaction, given: str) -> dict[Aggregate, int]:
        """Reserve numbers on PostgreSQL and store `as_unseen` rows under them.

        Tells where the aggregates were before; those that it leaves out had no event.
        """
        heads = transaction.rows(self._queries["store_unseen"], g=given, handler_prefix=self._handler_prefix)
        return heads_in(heads)


def as_unseen(groups: Sequence[Group]) -> str:
    """What `insert_unseen` takes. It costs CPU, so it is made before the transaction."""
    drafts = sorted((each for group in groups for each in group), key=lambda each: each.place)
    firsts: dict[Aggregate, _Row] = {}
    rows: list[_Row] = []
    for each in drafts:
        row = _row(each)
        first = firsts.setdefault(each.aggregate, row)
        first.events += 1
        row.nth = first.events
        rows.append(row)
    return as_rows(rows)


def _row(draft: Draft, sequence_number: int = 0) -> _Row:
    return _Row(
        sequence_number,
        0,
        0,
        draft.place,
        draft.event_id,
        *draft.aggregate,
        draft.event_type,
        draft.operation,
        draft.occurred_at_us,
        draft.payload,
        draft.metadata,
        draft.schema_version,
        draft.content_hash,
    )


def _in_order(numbered: Numbered) -> tuple[Any, ...]:
    """What is stored, in the order of the columns of `store (sqlite)`."""
    draft = numbered.draft
    return (
        draft.event_id,
        *draft.aggregate,
        numbered.sequence_number,
        draft.event_type,
        draft.operation,
        draft.occurred_at_us,
        draft.payload,
        draft.metadata,
        draft.schema_version,
        draft.content_hash,
    )

"""Drafts on their way into the table, many at once."""

from collections.abc import Sequence
from typing import Any

import msgspec

from driftq.eventstore.append.draft import Draft
from driftq.eventstore.append.rule import Group, Numbered
from driftq.eventstore.append.sequences import heads_in
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


class EventRows:
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

    def insert_unseen(self, transaction: Transaction, unseen: "NewEvents") -> dict[Aggregate, int]:
        """Number and store them; tells where the aggregates were before. Those left out had no event."""
        statement = self._queries["store_unseen"]
        if isinstance(unseen.given, str):
            return heads_in(transaction.rows(statement, g=unseen.given, handler_prefix=self._handler_prefix))
        transaction.change_each(statement, unseen.given)
        newest = transaction.look_up(self._queries["newest_numbers"], [len(unseen.drafts)])
        heads: dict[Aggregate, int] = {}
        for draft, (number,) in zip(unseen.drafts, reversed(newest), strict=True):
            heads.setdefault(draft.aggregate, number - 1)
        return heads


class NewEvents(msgspec.Struct, frozen=True):
    """Events of which nothing is known, as `insert_unseen` takes them.

    To make one costs CPU, so it is done before the transaction.
    """

    drafts: list[Draft]
    given: str | list[tuple[Any, ...]]

    @classmethod
    def of(cls, groups: Sequence[Group], dialect: Dialect) -> "NewEvents":
        drafts = sorted((each for group in groups for each in group), key=lambda each: each.place)
        given = _counted(drafts) if dialect is Dialect.POSTGRES else [_unnumbered(each) for each in drafts]
        return cls(drafts, given)


def _counted(drafts: Sequence[Draft]) -> str:
    """Rows for PostgreSQL that know which of their aggregate's they are."""
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
    return _Row(sequence_number, 0, 0, draft.place, *_unnumbered(draft))


def _in_order(numbered: Numbered) -> tuple[Any, ...]:
    """What is stored, in the order of the parameters of `store (sqlite)`."""
    return (*_unnumbered(numbered.draft), numbered.sequence_number)


def _unnumbered(draft: Draft) -> tuple[Any, ...]:
    """The same without the number, as `store_unseen (sqlite)` and the end of a `_Row` have them."""
    return (
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

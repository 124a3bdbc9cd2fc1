"""Inserting drafts into the table, many at once."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any

import msgspec

from driftq.eventstore.append.draft import Draft
from driftq.eventstore.append.rule import Group, Numbered
from driftq.eventstore.append.sequences import heads_in
from driftq.eventstore.stored import StoredEvent
from driftq.model import Aggregate
from driftq.sql import Dialect, Queries, Transaction, as_rows

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


class EventRows:
    def __init__(self, queries: Queries, *, handler_prefix: str) -> None:
        self._queries = queries
        self._handler_prefix = handler_prefix

    def insert(self, transaction: Transaction, fresh: Sequence[Numbered]) -> None:
        """Store them under their numbers, in the order in which they were given."""
        fresh = sorted(fresh, key=lambda each: each.draft.index)
        statement = self._queries["store"]
        if transaction.dialect is Dialect.SQLITE:
            transaction.change_each(statement, [_in_order(each) for each in fresh])
        else:
            transaction.run(statement, g=as_rows([_row(each.draft, each.sequence_number) for each in fresh]))

    def insert_new(self, transaction: Transaction, new_events: "NewEvents") -> dict[Aggregate, int]:
        """Number and store them; returns the earlier heads of the aggregates. Those left out had no event."""
        statement = self._queries["store_new"]
        if isinstance(new_events.given, str):
            return heads_in(
                transaction.rows(statement, g=new_events.given, handler_prefix=self._handler_prefix)
            )
        transaction.change_each(statement, new_events.given)
        newest = transaction.look_up(self._queries["newest_numbers"], [len(new_events.drafts)])
        heads: dict[Aggregate, int] = {}
        for draft, (number,) in zip(new_events.drafts, reversed(newest), strict=True):
            heads.setdefault(draft.aggregate, number - 1)
        return heads


class NewEvents(msgspec.Struct, frozen=True):
    """New events, in the form that `insert_new` takes.

    Making one costs CPU, so it is done before the transaction.
    """

    drafts: list[Draft]
    given: str | list[tuple[Any, ...]]

    @classmethod
    def of(cls, groups: Sequence[Group], dialect: Dialect) -> "NewEvents":
        drafts = sorted((each for group in groups for each in group), key=lambda each: each.index)
        given = _counted(drafts) if dialect is Dialect.POSTGRES else [_draft_columns(each) for each in drafts]
        return cls(drafts, given)


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

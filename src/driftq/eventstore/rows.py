"""Drafts on their way into the table, many at once."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from driftq.eventstore.draft import Draft
from driftq.eventstore.numbering import heads_in
from driftq.eventstore.rule import Group, Numbered
from driftq.model import Aggregate
from driftq.sql import Dialect, Queries, Transaction, as_rows


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
            rows = [
                _named(each.draft, place=place, sequence_number=each.sequence_number)
                for place, each in enumerate(fresh)
            ]
            transaction.run(statement, g=as_rows(rows))

    def insert_unseen(self, transaction: Transaction, groups: Sequence[Group]) -> dict[Aggregate, int]:
        """Reserve numbers on PostgreSQL and store all under them; tells where the aggregates were before."""
        drafts = sorted((each for group in groups for each in group), key=lambda each: each.place)
        events = Counter(each.aggregate for each in drafts)
        seen: Counter[Aggregate] = Counter()
        rows: list[dict[str, Any]] = []
        for place, each in enumerate(drafts):
            seen[each.aggregate] += 1
            rows.append(_named(each, place=place, nth=seen[each.aggregate], events=events[each.aggregate]))
        heads = transaction.rows(
            self._queries["store_unseen"], g=as_rows(rows), handler_prefix=self._handler_prefix
        )
        return heads_in(heads)


def _in_order(numbered: Numbered) -> tuple[Any, ...]:
    """What is stored, in the order of the columns of `store (sqlite)`."""
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


def _named(draft: Draft, **more: int) -> dict[str, Any]:
    return {
        "event_id": draft.event_id,
        "aggregate_type": draft.aggregate.type,
        "aggregate_id": draft.aggregate.id,
        "event_type": draft.event_type,
        "operation": draft.operation.value,
        "occurred_at_us": draft.occurred_at_us,
        "payload": draft.payload,
        "metadata": draft.metadata,
        "schema_version": draft.schema_version,
        "content_hash": draft.content_hash,
        **more,
    }

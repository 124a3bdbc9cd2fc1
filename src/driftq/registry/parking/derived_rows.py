"""Derived events between the mark of their source and the event store."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from driftq.registry.sql_registry import MIGRATIONS
from driftq.sql import Database, Queries, Transaction, as_rows, perform, prepare, storable


class DerivedRow(NamedTuple):
    """One derived event that the event store has not confirmed."""

    source_id: str
    number: int
    event: str


class DerivedRows:
    """Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        prepare(database, [MIGRATIONS])
        self._database = database
        self._queries = Queries.load("driftq.registry", database.renderer)

    def keep(self, transaction: Transaction, handler: str, events: Mapping[str, Sequence[str]]) -> None:
        """The texts of derived events by the id of their source; kept or dropped with the transaction."""
        given = [
            {"source_id": source_id, "place": index, "event": event}
            for source_id, texts in events.items()
            for index, event in enumerate(texts)
        ]
        if given:
            transaction.run(self._queries["keep_derived"], handler=handler, g=as_rows(given))

    def unsent(self, handler: str, *, limit: int = 500) -> list[DerivedRow]:
        """Those that the event store has not got, as far as is known."""
        with self._database.snapshot() as transaction:
            rows = transaction.rows(self._queries["list_derived"], handler=handler, most=limit)
        return [DerivedRow(*row) for row in rows]

    def drop(self, handler: str, rows: Sequence[DerivedRow]) -> None:
        """The event store has them."""
        given = as_rows([{"source_id": row.source_id, "place": row.number} for row in rows])
        perform(
            self._database,
            lambda transaction: transaction.run(self._queries["drop_derived"], handler=handler, g=given),
        )

    def refuse(self, handler: str, row: DerivedRow, *, why: str) -> None:
        """The event store will never take it: kept for people, and not sent again."""
        key = {"source_id": row.source_id, "place": row.number}
        perform(
            self._database,
            lambda transaction: transaction.run(
                self._queries["refuse_derived"], handler=handler, why=storable(why) or "refused", **key
            ),
        )

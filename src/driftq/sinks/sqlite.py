"""Read models in an SQLite file: for one machine, and for a start without a database server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from driftq.sinks.names import projection_name
from driftq.sinks.port import Change
from driftq.sinks.sql_model import SqlReadModel
from driftq.sql import Queries, Transaction, open_database


@dataclass(frozen=True, slots=True)
class SqliteSink:
    """Tables in the file at `path`. Only the machine that drives Spark writes it."""

    path: str

    def connect(self, projection: str) -> SqlReadModel:
        name = projection_name(projection)
        database = open_database(f"sqlite:///{self.path}", connections=2)
        return SqlReadModel(name, database, merge=_merge, prepare_schema=_prepare_schema)


def _merge(transaction: Transaction, queries: Queries, changes: Sequence[Change]) -> None:
    transaction.connection.exec_driver_sql(queries["merge"].text.text, list(changes))


def _prepare_schema(transaction: Transaction) -> None:
    """A file has one writer at a time anyway."""

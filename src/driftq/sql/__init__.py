"""One way to SQLite and PostgreSQL: transactions, named queries, versioned tables.

    database = open_database("sqlite:///events.db")         # or postgresql://…
    prepare(database, [MIGRATIONS])                         # makes SQLite's tables, checks PostgreSQL's
    queries = Queries.load("driftq.registry", database.renderer)  # driftq/registry/queries/*.sql
    with database.transaction() as transaction:
        transaction.run(queries["finish"], given=as_rows([{"event_id": "e-1"}]))

A package keeps its SQL in `queries/` and `migrations/` beside its modules, once for both databases where it
can: `driftq.sql.dialect` renders what differs.
"""

from driftq.sql.clock import DatabaseClock, WallClock
from driftq.sql.database import Database, perform
from driftq.sql.dialect import Dialect, SqlRenderer
from driftq.sql.keys import KEY_BYTES_MAX, key_text, storable
from driftq.sql.migrations import Applied, Migrations, prepare, require, upgrade
from driftq.sql.open import open_database
from driftq.sql.queries import Queries, Statement
from driftq.sql.transaction import Transaction, as_rows

__all__ = [
    "KEY_BYTES_MAX",
    "Applied",
    "Database",
    "DatabaseClock",
    "Dialect",
    "Migrations",
    "Queries",
    "SqlRenderer",
    "Statement",
    "Transaction",
    "WallClock",
    "as_rows",
    "key_text",
    "open_database",
    "perform",
    "prepare",
    "require",
    "storable",
    "upgrade",
]

"""Appending in a transaction of the caller's own: the events are there if it commits, else they never were.

The statements are those of every other append, run on the caller's connection between savepoints, so that a
refused event leaves the caller's transaction as it was. The numbering locks the aggregate until the caller's
transaction ends: keep it short.

This works in the very database of the event store only. Whether a connection leads there is asked of the
database itself: two addresses may name one database, and one address may name two.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from driftq.errors import InvalidArgument, TransactionConflict
from driftq.eventstore.append.draft import draft
from driftq.eventstore.append.rule import Answer, Group
from driftq.eventstore.append.writer import EventWriter, NothingToStore
from driftq.eventstore.options import AllocatorMode, MismatchMode
from driftq.eventstore.outcome import Append, Appended, Refused
from driftq.eventstore.schema import event_migrations, load_queries
from driftq.model import Event
from driftq.model.options.events import EventOptions
from driftq.model.time import microseconds
from driftq.sql import Database, SqlRenderer, Statement, Transaction, WallClock, require

if TYPE_CHECKING:
    from sqlalchemy import Connection

_TRIES = 5
_UNIQUE_VIOLATION = "23505"
_INSTEAD = "write it with driftq.outbox.append(connection, event) instead"
_IDENTITY = (
    "SELECT control.system_identifier, here.oid FROM pg_control_system() AS control, pg_database AS here "
    "WHERE here.datname = current_database()"
)

logger = logging.getLogger("driftq.events")


class JoinedTransaction(Transaction):
    """The caller's transaction on a connection of psycopg, with the calls that the writer makes."""

    def __init__(self, connection: Any, renderer: SqlRenderer) -> None:
        super().__init__(connection, renderer, WallClock())
        self._driver = connection

    def rows(self, statement: Statement, **given: Any) -> Sequence[Any]:
        from psycopg.rows import namedtuple_row

        with self._driver.cursor(row_factory=namedtuple_row) as cursor:
            cursor.execute(self._rendered(statement), given)
            found: list[Any] = cursor.fetchall()
            return found

    def run(self, statement: Statement, **given: Any) -> int:
        with self._driver.cursor() as cursor:
            cursor.execute(self._rendered(statement), given)
            return int(cursor.rowcount)

    def _rendered(self, statement: Statement) -> str:
        from sqlalchemy.dialects.postgresql.psycopg import dialect

        self.require_own_process()
        return str(statement.text.compile(dialect=dialect()))  # type: ignore[no-untyped-call]


class JoinedAppends:
    """Appends to the event store of the options in transactions of others. Safe to share between threads."""

    def __init__(self, options: EventOptions) -> None:
        """Raises InvalidArgument where the event store is not in PostgreSQL, and Unavailable."""
        if options.database_url is None or not options.database_url.startswith("postgres"):
            raise InvalidArgument(
                "transaction",
                "needs an event store in PostgreSQL, and DRIFTQ_DATABASE_URL does not name one here: "
                + _INSTEAD,
            )
        from driftq.eventstore.opening import open_event_database

        self._database: Database = open_event_database(options)
        require(self._database, event_migrations(self._database))
        self._mode = AllocatorMode(options.allocator) if options.allocator else AllocatorMode.POSTGRES
        self._writer = EventWriter(
            self._database,
            load_queries(self._database),
            mode=self._mode,
            mismatch=MismatchMode(options.mismatch),
            handler_prefix=options.handler_prefix,
        )
        with self._database.snapshot() as snapshot:
            self._identity = tuple(snapshot.connection.exec_driver_sql(_IDENTITY).one())

    def append(self, event: Event, *, expected_seq: int | None, transaction: Any) -> Appended:
        """One event in the caller's transaction; raises the error of a refused event."""
        joined = self._join(transaction)
        now_us = microseconds(dt.datetime.now(dt.UTC))
        command = Append(event, expected_seq)
        group = [draft(command, event.aggregate, 0, mode=self._mode, now_us=now_us)]
        [[answer]] = self._store(joined, [group])
        if isinstance(answer, Refused):
            raise answer.error
        if answer.payload_mismatch:
            logger.warning(
                "event_id %r was sent again with different content; the stored event is unchanged",
                answer.event_id,
            )
        return answer

    def close(self) -> None:
        self._database.close()

    def _store(self, joined: Transaction, groups: Sequence[Group]) -> list[list[Answer]]:
        for _ in range(_TRIES):
            _command(joined, "SAVEPOINT driftq_append")
            try:
                answers = self._writer.store_in(joined, groups)
            except NothingToStore as nothing:
                _command(joined, "ROLLBACK TO SAVEPOINT driftq_append")
                return nothing.answers
            except Exception as error:
                _command(joined, "ROLLBACK TO SAVEPOINT driftq_append")
                if _sqlstate(error) != _UNIQUE_VIOLATION:
                    raise
                continue  # Another writer has committed this event_id: the next try sees it.
            _command(joined, "RELEASE SAVEPOINT driftq_append")
            return answers
        raise TransactionConflict(self._database.address, cause="other writers kept storing the same event")

    def _join(self, given: Any) -> Transaction:
        """The caller's transaction; raises InvalidArgument for one in another database."""
        connection = given.connection() if hasattr(given, "get_bind") else given  # A session of SQLAlchemy.
        if hasattr(connection, "vendor"):
            connection = connection.connection  # Django's, which wraps the driver's.
        if hasattr(connection, "exec_driver_sql"):
            if connection.dialect.name != "postgresql":
                raise InvalidArgument("transaction", f"is on {connection.dialect.name}: {_INSTEAD}")
            found = tuple(connection.exec_driver_sql(_IDENTITY).one())
            joined = Transaction(connection, self._database.renderer, WallClock())
        elif type(connection).__module__.partition(".")[0] == "psycopg" and hasattr(connection, "info"):
            if hasattr(connection, "__aenter__"):
                raise InvalidArgument("transaction", "must not be an asynchronous connection: " + _INSTEAD)
            with connection.cursor() as cursor:
                cursor.execute(_IDENTITY)
                found = tuple(cursor.fetchone())
            if connection.info.transaction_status == 0:
                raise InvalidArgument(
                    "transaction", "the connection is in autocommit mode: begin a transaction"
                )
            joined = JoinedTransaction(connection, self._database.renderer)
        else:
            raise InvalidArgument(
                "transaction", f"{type(given).__name__} is no connection to PostgreSQL: {_INSTEAD}"
            )
        if found != self._identity:
            raise InvalidArgument(
                "transaction", f"is in another database than {self._database.address}: {_INSTEAD}"
            )
        return joined


def _command(joined: Transaction, command: str) -> None:
    if isinstance(joined, JoinedTransaction):
        with joined._driver.cursor() as cursor:
            cursor.execute(command)
    else:
        connection: Connection = joined.connection
        connection.exec_driver_sql(command)


def _sqlstate(error: Exception) -> str | None:
    cause = getattr(error, "orig", None) or error  # SQLAlchemy wraps what the driver raised.
    state: str | None = getattr(cause, "sqlstate", None)
    return state

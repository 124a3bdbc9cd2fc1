"""One open transaction: where statements run, and where a handler's own SQL may join."""

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from sqlalchemy import Connection, CursorResult
from sqlalchemy.exc import DBAPIError

from driftq.errors import UsedAfterFork
from driftq.sql.clock import DatabaseClock
from driftq.sql.dialect import Dialect, SqlRenderer
from driftq.sql.queries import Statement


def as_rows(rows: Sequence[Mapping[str, Any] | msgspec.Struct]) -> str:
    """Rows for a `{rows …}` source: one bound text, however many rows there are."""
    return msgspec.json.encode(rows).decode()


@contextmanager
def driver_cursor(connection: Connection, name: str) -> Iterator[sqlite3.Cursor]:
    """A cursor of SQLite's driver, without SQLAlchemy's share of the work; its errors are SQLAlchemy's."""
    cursor: sqlite3.Cursor = connection.connection.cursor()  # type: ignore[assignment]
    try:
        yield cursor
    except sqlite3.Error as error:
        raise DBAPIError.instance(name, None, error, sqlite3.Error) from error
    finally:
        cursor.close()


class Transaction:
    """Statements on one connection, all kept or none. It is over when its `with` block is.

    Many rows reach PostgreSQL as one text, see `as_rows`, because each statement is a message there and back.
    SQLite is in this process: there the driver goes through them itself, which costs less than to take a text
    apart. `change_each` and `look_up` are for SQLite only.
    """

    __slots__ = ("_clock", "_process", "connection", "renderer")

    def __init__(self, connection: Connection, renderer: SqlRenderer, clock: DatabaseClock) -> None:
        self.connection = connection
        """SQLAlchemy's connection, for SQL that shall be kept or dropped together with ours."""
        self.renderer = renderer
        self._clock = clock
        self._process = os.getpid()

    def require_own_process(self) -> None:
        """Raise UsedAfterFork in a forked child: its statements would mix with the parent's."""
        if os.getpid() != self._process:
            raise UsedAfterFork("this transaction", instead="begin one in this process")

    @property
    def dialect(self) -> Dialect:
        return self.renderer.dialect

    def rows(self, statement: Statement, **given: Any) -> Sequence[Any]:
        """All rows that the statement gives: tuples whose columns are attributes as well."""
        return self._execute(statement, given).all()

    def row(self, statement: Statement, **given: Any) -> Any:
        """The first row, or None."""
        return self._execute(statement, given).first()

    def run(self, statement: Statement, **given: Any) -> int:
        """How many rows were changed."""
        return self._execute(statement, given).rowcount

    def change_each(self, statement: Statement, rows: Sequence[Sequence[Any]]) -> int:
        """Run the statement for each row of parameters, which have no names; how many rows were changed."""
        with self._driver_cursor(statement.name) as cursor:
            cursor.executemany(statement.text.text, rows)
            return cursor.rowcount

    def look_up(self, statement: Statement, given: Sequence[Any]) -> list[tuple[Any, ...]]:
        """All rows that the statement gives for these parameters, which have no names."""
        with self._driver_cursor(statement.name) as cursor:
            cursor.execute(statement.text.text, given)
            return cursor.fetchall()

    @contextmanager
    def _driver_cursor(self, name: str) -> Iterator[sqlite3.Cursor]:
        self.require_own_process()
        with driver_cursor(self.connection, name) as cursor:
            yield cursor

    def now(self) -> int:
        """The time in milliseconds that statements on SQLite get as a parameter."""
        return self._clock.now()

    def _execute(self, statement: Statement, given: dict[str, Any]) -> CursorResult[Any]:
        self.require_own_process()
        if statement.timed:
            given["now_ms"] = self._clock.now()
        return self.connection.execute(statement.text, given)

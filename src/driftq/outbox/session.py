"""Transactions on an outbox's database, with the standard library's SQLite driver or psycopg.

The relay changes nothing about a database that is not its own: no journal mode, no schema, no pool.
"""

from __future__ import annotations

import logging
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from driftq.errors import DatabaseUnavailable, InvalidArgument, OutboxMissing
from driftq.outbox.connections import DatabaseName

_NAME = re.compile(r":([a-z_]+)")
_NOW = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
_Found = TypeVar("_Found")

logger = logging.getLogger("driftq.outbox")


class DriverConnection(Protocol):
    """What the two drivers have in common."""

    def execute(self, statement: str, values: Any = ...) -> Any: ...

    def close(self) -> None: ...


class Statements:
    """Statements of one transaction: parameters as `:name`, the time as `{now}`."""

    def __init__(self, connection: DriverConnection, database: DatabaseName) -> None:
        self._connection = connection
        self._database = database

    def rows(self, statement: str, **named: Any) -> list[tuple[Any, ...]]:
        return list(self._execute(statement, named).fetchall())

    def change(self, statement: str, **named: Any) -> int:
        """How many rows were changed."""
        return int(self._execute(statement, named).rowcount)

    def _execute(self, statement: str, named: dict[str, Any]) -> Any:
        if self._database == "sqlite":
            named["now_ms"] = time.time_ns() // 1_000_000
            return self._connection.execute(statement.replace("{now}", ":now_ms"), named)
        rendered = _NAME.sub(r"%(\1)s", statement.replace("{now}", _NOW)) if named else statement
        return self._connection.execute(rendered.replace("{now}", _NOW), named or None)


class OutboxSession:
    """One connection, which is made when it is needed and again after a failure."""

    def __init__(self, url: str) -> None:
        self.database: DatabaseName = _database(url)
        self._url = url
        self._connection: DriverConnection | None = None

    @property
    def address(self) -> str:
        """Where it is, without a password."""
        return re.sub(r"(//[^:/@]*):[^@/]*@", r"\1:***@", self._url)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def perform(self, work: Callable[[Statements], _Found]) -> _Found:
        """In a transaction of its own. Raises DatabaseUnavailable; a repeated call reconnects."""
        with self._translated():
            connection = self._connection = self._connection or self._connect()
            run = Statements(connection, self.database)
            connection.execute("BEGIN IMMEDIATE" if self.database == "sqlite" else "BEGIN")
            try:
                found = work(run)
                connection.execute("COMMIT")
            except BaseException:
                self._give_up(connection)
                raise
            return found

    def _give_up(self, connection: DriverConnection) -> None:
        """Drop the connection with its transaction: whatever state it was in, the next one is clean."""
        self._connection = None
        try:
            connection.close()
        except Exception as error:  # noqa: BLE001 - any driver's; the connection is given up either way.
            logger.debug("closing a broken connection: %s", error)

    def _connect(self) -> DriverConnection:
        if self.database == "sqlite":
            path = self._url.removeprefix("sqlite:///")
            return sqlite3.connect(path, timeout=10.0, isolation_level=None, check_same_thread=False)
        try:
            import psycopg
        except ModuleNotFoundError:
            raise InvalidArgument("database", "needs psycopg: install driftq[postgres]") from None
        url = re.sub(r"^postgres(ql)?(\+psycopg)?:", "postgresql:", self._url)
        connection: Any = psycopg.connect(
            url,
            autocommit=True,
            connect_timeout=5,
            application_name="driftq-outbox",
            keepalives_idle=10,
            tcp_user_timeout=15_000,
        )
        return connection  # type: ignore[no-any-return]

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._meaning(error, missing="no such table" in str(error)) from error
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "psycopg":
                raise
            raise self._meaning(error, missing=getattr(error, "sqlstate", None) == "42P01") from error

    def _meaning(self, error: Exception, *, missing: bool) -> Exception:
        if missing:
            return OutboxMissing(self.address)
        cause = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        return DatabaseUnavailable(self.address, cause=cause)


def _database(url: str) -> DatabaseName:
    if url.startswith("sqlite:///") and not url.endswith(":memory:"):
        return "sqlite"
    if re.match(r"postgres(ql)?(\+psycopg)?://", url):
        return "postgresql"
    raise InvalidArgument("database", "must be sqlite:///PATH or postgresql://USER:PASSWORD@HOST/NAME")

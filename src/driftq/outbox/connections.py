"""Running one statement in the transaction of whatever connection the caller has.

Connections are told apart by what they offer, so that none of their packages is imported: psycopg (connection
or cursor, also asynchronous), sqlite3, SQLAlchemy (Connection, Session and their asyncio forms), Django's
`connection`, and any other DB-API connection to PostgreSQL.
"""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Sequence
from typing import Any, Literal

from driftq.errors import InvalidArgument

DatabaseName = Literal["postgresql", "sqlite"]

_MARKS = {"qmark": "?", "format": "%s", "pyformat": "%s"}


def database_of(connection: Any) -> DatabaseName:
    """Which database the connection leads to; raises InvalidArgument for one that is neither."""
    if (vendor := getattr(connection, "vendor", None)) is not None:  # Django
        return _known(str(vendor))
    if (bind := getattr(connection, "get_bind", None)) is not None:  # a Session of SQLAlchemy
        return _known(str(bind().dialect.name))
    if (dialect := getattr(connection, "dialect", None)) is not None:
        return _known(str(dialect.name))
    if isinstance(connection, sqlite3.Connection | sqlite3.Cursor) or _is_from(connection, "aiosqlite"):
        return "sqlite"
    if hasattr(connection, "cursor") or hasattr(connection, "execute"):
        return "postgresql"
    raise InvalidArgument("connection", f"{type(connection).__name__} is no connection to a database")


def run(connection: Any, statement: str, values: Sequence[Any] = ()) -> None:
    """Run a statement, its values written as `?`, in the connection's transaction."""
    if (bind := getattr(connection, "get_bind", None)) is not None and bind() is not None:
        connection = connection.connection()
        _refuse_awaitable(connection)
    if hasattr(connection, "exec_driver_sql"):
        _refuse_awaitable(connection.exec_driver_sql(_marked(statement, _style(connection)), tuple(values)))
        return
    style = "qmark" if database_of(connection) == "sqlite" and not _is_django(connection) else "format"
    if hasattr(connection, "execute") and not _is_django(connection):
        _refuse_awaitable(connection.execute(_marked(statement, style), tuple(values)))
        return
    cursor = connection.cursor()
    try:
        _refuse_awaitable(cursor.execute(_marked(statement, style), tuple(values)))
    finally:
        cursor.close()


async def run_async(connection: Any, statement: str, values: Sequence[Any] = ()) -> None:
    """The same on an asynchronous connection."""
    if hasattr(connection, "get_bind"):
        connection = connection.connection()
        if inspect.isawaitable(connection):
            connection = await connection
    if hasattr(connection, "exec_driver_sql"):
        ran = connection.exec_driver_sql(_marked(statement, _style(connection)), tuple(values))
    else:
        style = "qmark" if database_of(connection) == "sqlite" else "format"
        ran = connection.execute(_marked(statement, style), tuple(values))
    if inspect.isawaitable(ran):
        await ran


def _marked(statement: str, style: str) -> str:
    if style == "numeric_dollar":
        parts = statement.split("?")
        return "".join(part + (f"${n}" if n < len(parts) else "") for n, part in enumerate(parts, start=1))
    return statement.replace("?", _MARKS[style])


def _style(connection: Any) -> str:
    style = str(connection.dialect.paramstyle)
    if style not in _MARKS and style != "numeric_dollar":
        raise InvalidArgument(
            "connection", f"its driver writes parameters as {style}, which is not supported"
        )
    return style


def _known(name: str) -> DatabaseName:
    if name == "postgresql":
        return "postgresql"
    if name == "sqlite":
        return "sqlite"
    raise InvalidArgument("connection", f"the outbox needs PostgreSQL or SQLite, not {name}")


def _is_django(connection: Any) -> bool:
    return hasattr(connection, "vendor")


def _is_from(connection: Any, package: str) -> bool:
    return type(connection).__module__.partition(".")[0] == package


def _refuse_awaitable(ran: Any) -> None:
    """Nothing was written by a coroutine that nobody awaits."""
    if inspect.isawaitable(ran):
        if inspect.iscoroutine(ran):
            ran.close()
        raise InvalidArgument("connection", "is asynchronous: await the function whose name ends in _async")

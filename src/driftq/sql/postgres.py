"""PostgreSQL as a database: a pool of connections that notices when the server was away.

An unreachable server raises an error at once, at the latest after the connect timeout; one that hangs does
after the TCP timeout. A connection that has been idle for a second is tested before it is handed out, so that
a restart of the server meanwhile causes no error.

Isolation is READ COMMITTED: each statement sees what was committed before it began. What must not change
between two statements has to be locked, with `{for_update}` or by writing it.

This module begins transactions, not the driver: so their options reach the server with the BEGIN.
"""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event, exc
from sqlalchemy.engine import URL
from sqlalchemy.pool import ConnectionPoolEntry, PoolProxiedConnection

from driftq.errors import DatabaseUnsuitable, InvalidArgument
from driftq.forking import in_forked_child, leave_behind
from driftq.sql.clock import DatabaseClock, WallClock
from driftq.sql.database import session
from driftq.sql.dialect import Dialect, SqlRenderer
from driftq.sql.transaction import Transaction

OLDEST_VERSION = 15
_SECRETS = ("password", "sslpassword")
"""Options of an address that are never shown."""
_TRY_AFTER_IDLE_S = 1.0
_USED_AT = "driftq_used_at"

_BEGIN = "driftq_begin"
_WRITING = "BEGIN"
_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# With a table that is small today a look through all of it would be the better plan, and would be kept.
_PLANNED_ONCE = "BEGIN; SET LOCAL plan_cache_mode = force_generic_plan; SET LOCAL enable_seqscan = off"


class PostgresDatabase:
    """One PostgreSQL database; our tables live in `schema`, those of `schemas` in schemas of their own."""

    dialect = Dialect.POSTGRES

    def __init__(
        self,
        url: URL,
        *,
        schema: str = "driftq",
        schemas: Mapping[str, str] | None = None,
        clock: DatabaseClock | None = None,
        connections: int = 8,
        connect_timeout_s: int = 5,
        lock_timeout_ms: int = 10_000,
    ) -> None:
        shown = url.set(drivername="postgresql").difference_update_query(_SECRETS)
        self.address = shown.render_as_string(hide_password=True)
        self.renderer = SqlRenderer(
            Dialect.POSTGRES, schema=schema, schemas=schemas or {}, clock_given=clock is not None
        )
        self._clock = clock or WallClock()
        self._lock_timeout_ms = lock_timeout_ms
        self._engine = create_engine(
            url.set(drivername="postgresql+psycopg"),
            pool_size=connections,
            max_overflow=0,
            pool_timeout=lock_timeout_ms / 1000,
            use_native_hstore=False,
            connect_args={
                "autocommit": True,
                "connect_timeout": connect_timeout_s,
                "application_name": "driftq",
                "keepalives_idle": 10,
                "keepalives_interval": 5,
                "keepalives_count": 3,
                "tcp_user_timeout": 15_000,
            },
        )
        _set_up_connections(self._engine, lock_timeout_ms=lock_timeout_ms)
        _try_idle_connections(self._engine)
        _set_begin_statement(self._engine)
        self._reading = self._engine.execution_options(**{_BEGIN: _READING})
        self._planned_once = self._engine.execution_options(**{_BEGIN: _PLANNED_ONCE})
        try:
            self.check()
        except exc.ProgrammingError as refused:
            self.close()
            if getattr(refused.orig, "sqlstate", None) is None:  # No server has seen it.
                problem = f"{self.address} cannot be used: {refused.orig}"
                raise InvalidArgument("database url", " ".join(problem.split())) from None
            raise
        except BaseException:
            self.close()
            raise
        in_forked_child(self._reset_in_child)

    def _reset_in_child(self) -> None:
        """The sockets are the parent's: to close them here would end its sessions."""
        leave_behind(self._engine.pool)
        self._engine.dispose(close=False)

    def transaction(self, *, planned_once: bool = False) -> AbstractContextManager[Transaction]:
        return self._session(self._planned_once if planned_once else self._engine, reading=False)

    def snapshot(self) -> AbstractContextManager[Transaction]:
        return self._session(self._reading, reading=True)

    def check(self) -> None:
        with self.transaction() as transaction:
            encoding = transaction.connection.exec_driver_sql("SHOW server_encoding").scalar_one()
            number = transaction.connection.exec_driver_sql("SHOW server_version_num").scalar_one()
        require_version(self.address, int(number) // 10_000)
        if encoding != "UTF8":
            raise DatabaseUnsuitable(self.address, problem=f"its encoding is {encoding}, not UTF8")

    def close(self) -> None:
        self._engine.dispose()

    def _session(self, engine: Engine, *, reading: bool) -> AbstractContextManager[Transaction]:
        waited_ms = self._lock_timeout_ms
        return session(
            engine, self.renderer, self._clock, address=self.address, waited_ms=waited_ms, reading=reading
        )


def require_version(address: str, version: int) -> None:
    """Raise DatabaseUnsuitable for a server that lacks MERGE, with which read models are written."""
    if version < OLDEST_VERSION:
        problem = f"PostgreSQL is {version}, and {OLDEST_VERSION} or newer is needed"
        raise DatabaseUnsuitable(address, problem=problem)


def _set_up_connections(engine: Engine, *, lock_timeout_ms: int) -> None:
    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: ConnectionPoolEntry) -> None:
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {int(lock_timeout_ms)}")
            # A plan made while a table was small must not outlive that: plan with today's sizes.
            cursor.execute("SET plan_cache_mode = force_custom_plan")


def _set_begin_statement(engine: Engine) -> None:
    @event.listens_for(engine, "begin")
    def on_begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, _WRITING))


def _try_idle_connections(engine: Engine) -> None:
    @event.listens_for(engine, "checkin")
    def returned(_: Any, entry: ConnectionPoolEntry) -> None:
        entry.info[_USED_AT] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def taken(connection: Any, entry: ConnectionPoolEntry, _: PoolProxiedConnection) -> None:
        used_at = entry.info.get(_USED_AT)
        if used_at is None or time.monotonic() - used_at < _TRY_AFTER_IDLE_S:
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as gone:
            raise exc.DisconnectionError from gone  # The pool then makes a new connection.

"""SQLite as a database: one file, one writer at a time, every commit on disk before it is answered.

WAL journal with synchronous=FULL, so a commit survives a power cut and readers never wait for the writer.
Writing goes through one connection. The threads of a process take turns at it, and BEGIN IMMEDIATE with a
busy timeout is what processes wait with, so a transaction that reads first and writes later cannot be
refused half-way. Reading has connections of its own that cannot write, and one more moves what was
committed from the journal into the file.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.pool import QueuePool

from driftq.errors import DatabaseBusy, DatabaseUnsuitable
from driftq.sql.checkpoints import Checkpoints
from driftq.sql.clock import Clock, WallClock
from driftq.sql.database import session
from driftq.sql.dialect import Dialect, Spelling
from driftq.sql.transaction import Transaction
from driftq.sql.turns import Turns

MEMORY = ":memory:"
NEEDED = (3, 38, 0)  # RETURNING, UPDATE FROM, STRICT tables, the ->> operator

_PRAGMAS = {
    "synchronous": "FULL",
    # Pages of 4 KiB. The commit that reaches this moves them all and is slow: it is for the case that
    # `driftq.sql.checkpoints`, which does it in smaller steps and outside of commits, cannot keep up.
    "wal_autocheckpoint": 40_000,
    "cache_size": -16_000,  # KiB, when negative.
}


class SqliteDatabase:
    """A file, or `:memory:` for one that is gone when it is closed."""

    dialect = Dialect.SQLITE

    def __init__(
        self, path: str, *, clock: Clock | None = None, readers: int = 4, busy_timeout_ms: int = 10_000
    ) -> None:
        self.address = f"sqlite:///{path}"
        if sqlite3.sqlite_version_info < NEEDED:
            raise DatabaseUnsuitable(self.address, problem=f"SQLite is {sqlite3.sqlite_version}, not 3.38")
        self.spelling = Spelling(Dialect.SQLITE, clock_given=clock is not None)
        self._clock = clock or WallClock()
        self._busy_ms = busy_timeout_ms
        self._turns = Turns()
        if path != MEMORY:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._writing = _engine(path, begin="BEGIN IMMEDIATE", connections=1, busy_ms=busy_timeout_ms)
        self._reading = self._writing
        if path != MEMORY:
            self._reading = _engine(path, begin="BEGIN", connections=readers, busy_ms=busy_timeout_ms)
            event.listen(self._reading, "connect", _forbid_writing)
        self._checkpoints = Checkpoints(path, self._turns)
        if path != MEMORY:
            event.listen(self._writing, "checkin", self._count_rows)
        self.check()

    @contextmanager
    def transaction(self, *, planned_once: bool = False) -> Iterator[Transaction]:
        """SQLite keeps the plans of its statements anyway."""
        if not self._turns.take(timeout_s=self._busy_ms / 1000):
            raise DatabaseBusy(self.address, waited_ms=self._busy_ms)
        try:
            with self._session(self._writing, reading=False) as transaction:
                yield transaction
        finally:
            self._turns.give()

    def snapshot(self) -> AbstractContextManager[Transaction]:
        if self._reading is self._writing:
            return self.transaction()
        return self._session(self._reading, reading=True)

    def check(self) -> None:
        with self.transaction() as transaction:
            transaction.connection.exec_driver_sql("SELECT count(*) FROM sqlite_schema")

    def close(self) -> None:
        self._checkpoints.close()
        self._reading.dispose()
        self._writing.dispose()

    def _count_rows(self, connection: sqlite3.Connection | None, _: Any) -> None:
        if connection is not None:  # None for one that broke.
            self._checkpoints.written(connection.total_changes)

    def _session(self, engine: Engine, *, reading: bool) -> AbstractContextManager[Transaction]:
        waited_ms = self._busy_ms
        return session(
            engine, self.spelling, self._clock, address=self.address, waited_ms=waited_ms, reading=reading
        )


def _engine(path: str, *, begin: str, connections: int, busy_ms: int) -> Engine:
    engine = create_engine(
        URL.create("sqlite+pysqlite", database=path),
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=busy_ms / 1000,
        connect_args={"check_same_thread": False, "timeout": busy_ms / 1000, "isolation_level": None},
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _: Any) -> None:
        if path != MEMORY:
            _use_wal(connection, until=time.monotonic() + busy_ms / 1000)
        for name, value in _PRAGMAS.items():
            connection.execute(f"PRAGMA {name} = {value}")

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _use_wal(connection: sqlite3.Connection, *, until: float) -> None:
    """The file remembers its journal mode. The first change is refused, not queued, while others open it."""
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.01)


def _forbid_writing(connection: sqlite3.Connection, _: Any) -> None:
    connection.execute("PRAGMA query_only = ON")

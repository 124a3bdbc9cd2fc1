"""SQLite as a database: one file, one writer at a time, every commit on disk before it is answered.

WAL journal with synchronous=FULL, so a commit survives a power cut and readers never wait for the writer.
Writing goes through one connection. The threads of a process take turns at it, and BEGIN IMMEDIATE with a
busy timeout is what processes wait with, so a transaction that reads first and writes later cannot be
refused half-way. Reading has connections of its own that cannot write, and one more moves what was
committed from the journal into the file.

SQLite keeps its locks for each process and knows of no fork: a child that opened the file beside an inherited
connection would believe in locks that only its parent has. So there is none while a process forks. Those who
are inside are waited for, the connections are closed, and each side opens its own when it needs them.
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

from driftq.errors import DatabaseBusy, DatabaseUnavailable, DatabaseUnsuitable, UsedAfterFork
from driftq.forking import around_fork, in_forked_child, leave_behind
from driftq.sql.checkpoints import Checkpoints
from driftq.sql.clock import DatabaseClock, WallClock
from driftq.sql.database import session
from driftq.sql.dialect import Dialect, SqlRenderer
from driftq.sql.fair_lock import FairLock
from driftq.sql.gate import Gate
from driftq.sql.transaction import Transaction, driver_cursor

MEMORY = ":memory:"
NEEDED = (3, 38, 0)  # RETURNING, UPDATE FROM, STRICT tables, the ->> operator

_PRAGMAS = {
    "synchronous": "FULL",
    # Pages of 4 KiB. The commit that reaches this moves them all and is slow: it is for the case that
    # `driftq.sql.checkpoints`, which does it in smaller steps and outside of commits, cannot keep up.
    "wal_autocheckpoint": 40_000,
    "cache_size": -16_000,  # KiB, when negative.
}


_INSTEAD = "it was in memory or in use when the process forked, so open it in this process"


class SqliteDatabase:
    """A file, or `:memory:` for one that is gone when it is closed."""

    dialect = Dialect.SQLITE

    def __init__(
        self,
        path: str,
        *,
        clock: DatabaseClock | None = None,
        readers: int = 4,
        busy_timeout_ms: int = 10_000,
    ) -> None:
        self.address = f"sqlite:///{path}"
        if sqlite3.sqlite_version_info < NEEDED:
            raise DatabaseUnsuitable(self.address, problem=f"SQLite is {sqlite3.sqlite_version}, not 3.38")
        self.renderer = SqlRenderer(Dialect.SQLITE, clock_given=clock is not None)
        self._clock = clock or WallClock()
        self._busy_ms = busy_timeout_ms
        self._path = path
        self._gate = Gate()
        self._at_rest = False
        self._left_to_parent = False
        self._writer_lock = FairLock()
        if path != MEMORY:
            _make_folder(Path(path).parent, self.address)
        self._writing = _engine(path, begin="BEGIN IMMEDIATE", connections=1, busy_ms=busy_timeout_ms)
        self._reading = self._writing
        if path != MEMORY:
            self._reading = _engine(path, begin="BEGIN", connections=readers, busy_ms=busy_timeout_ms)
            event.listen(self._reading, "connect", _forbid_writing)
        self._checkpoints = Checkpoints(path, self._writer_lock)
        if path != MEMORY:
            event.listen(self._writing, "checkin", self._count_rows)
        self.check()
        if path != MEMORY:
            around_fork(self._rest, self._go_on)
        in_forked_child(self._reset_in_child)

    @contextmanager
    def transaction(self, *, planned_once: bool = False) -> Iterator[Transaction]:
        """SQLite keeps the plans of its statements anyway."""
        with self._gate.inside():
            writer_lock = self._writer_lock
            if not writer_lock.take(timeout_s=self._busy_ms / 1000):
                raise DatabaseBusy(self.address, waited_ms=self._busy_ms)
            try:
                with self._session(self._writing, reading=False) as transaction:
                    yield transaction
            finally:
                writer_lock.give()

    def snapshot(self) -> AbstractContextManager[Transaction]:
        return self.transaction() if self._reading is self._writing else self._read()

    @contextmanager
    def _read(self) -> Iterator[Transaction]:
        with self._gate.inside(), self._session(self._reading, reading=True) as transaction:
            yield transaction

    def check(self) -> None:
        with self.transaction() as transaction:
            transaction.connection.exec_driver_sql("SELECT count(*) FROM sqlite_schema")

    def close(self) -> None:
        self._checkpoints.close()
        self._reading.dispose()
        self._writing.dispose()

    # When the process forks

    def _rest(self) -> None:
        self._at_rest = self._gate.shut(timeout_s=self._busy_ms / 1000)
        if self._at_rest:
            self.close()

    def _go_on(self) -> None:
        if self._at_rest:
            self._checkpoints = Checkpoints(self._path, self._writer_lock)
            self._gate.open()

    def _reset_in_child(self) -> None:
        self._left_to_parent = self._left_to_parent or not self._at_rest
        if self._left_to_parent:
            leave_behind(self._writing.pool, self._reading.pool)
        self._gate = Gate()
        self._writer_lock = FairLock()
        self._checkpoints = Checkpoints(self._path, self._writer_lock)

    def _count_rows(self, connection: sqlite3.Connection | None, _: Any) -> None:
        if connection is not None:  # None for one that broke.
            self._checkpoints.written(connection.total_changes)

    def _session(self, engine: Engine, *, reading: bool) -> AbstractContextManager[Transaction]:
        if self._left_to_parent:
            raise UsedAfterFork(self.address, instead=_INSTEAD)
        waited_ms = self._busy_ms
        return session(
            engine, self.renderer, self._clock, address=self.address, waited_ms=waited_ms, reading=reading
        )


def _make_folder(folder: Path, address: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DatabaseUnavailable(
            address, cause=str(error), advice="name a file in a folder that this user may write"
        ) from error


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
        with driver_cursor(connection, "begin") as cursor:
            cursor.execute(begin)

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

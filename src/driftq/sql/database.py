"""The port to a database, and how a transaction is begun, kept and given up."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol, TypeVar

from sqlalchemy import Engine, exc

from driftq.errors import TransactionConflict
from driftq.forking import leave_behind
from driftq.sql.clock import DatabaseClock
from driftq.sql.dialect import Dialect, SqlRenderer
from driftq.sql.failures import translate
from driftq.sql.transaction import Transaction

Result = TypeVar("Result")


class Database(Protocol):
    """SQLite or PostgreSQL. Safe to share between threads.

    Every method that reaches the database raises DatabaseUnavailable when it cannot, and DatabaseBusy when
    others held it for too long; in both cases, and for any other exception, nothing of the transaction is
    kept — but for a DatabaseUnavailable that says `unconfirmed`.

    In a forked child it has connections of its own. A transaction that was open when the process forked stays
    the parent's, and raises UsedAfterFork in the child.
    """

    @property
    def dialect(self) -> Dialect: ...

    @property
    def renderer(self) -> SqlRenderer:
        """How this database wants its SQL; what `Queries.load` needs."""

    @property
    def address(self) -> str:
        """Where it is, for people; holds no password."""

    def transaction(self, *, planned_once: bool = False) -> AbstractContextManager[Transaction]:
        """Read and write; kept when the block ends, dropped when it raises. Do not nest.

        PostgreSQL plans each execution, since the best plan depends on the current sizes of the tables.
        `planned_once` is for statements that need nothing but keys: their plans are made once.

        On SQLite one thread at a time is inside, the others wait: keep it short, and put at most 64
        changes into one.
        """

    def snapshot(self) -> AbstractContextManager[Transaction]:
        """Read only, all statements seeing the same moment; never waits for a writer."""

    def check(self) -> None:
        """Reach the database once; raises as above."""

    def close(self) -> None:
        """Let go of every connection."""


@contextmanager
def session(
    engine: Engine,
    renderer: SqlRenderer,
    clock: DatabaseClock,
    *,
    address: str,
    waited_ms: int,
    reading: bool = False,
) -> Iterator[Transaction]:
    """One transaction on a connection of the engine, with the engine's complaints translated."""
    committing = False
    process = os.getpid()
    try:
        connection = engine.connect()
        try:
            under_way = connection.begin()
            transaction = Transaction(connection, renderer, clock)
            yield transaction
            transaction.require_own_process()
            committing = True
            under_way.commit()
        finally:
            if os.getpid() == process:
                connection.close()  # Which rolls back what was not committed.
            else:
                leave_behind(connection)  # A forked child's: the parent goes on with it.
    except exc.SQLAlchemyError as error:
        meant = translate(error, address=address, waited_ms=waited_ms, committing=committing, reading=reading)
        if meant is None:
            raise
        raise meant from error


def perform(
    database: Database,
    work: Callable[[Transaction], Result],
    *,
    tries: int = 5,
    planned_once: bool = False,
) -> Result:
    """What `work` returns from a transaction of its own, repeated where the database asks for that.

    PostgreSQL breaks deadlocks and serialization ties by failing one side. `work` may run several times, and
    only its last run is kept: it must have no effect but through its transaction.
    """
    for _ in range(tries - 1):
        try:
            with database.transaction(planned_once=planned_once) as transaction:
                return work(transaction)
        except TransactionConflict:
            continue
    with database.transaction(planned_once=planned_once) as transaction:
        return work(transaction)

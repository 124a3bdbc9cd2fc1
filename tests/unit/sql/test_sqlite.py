"""SQLite as it is set up: durable commits, one writer, readers that do not wait."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import exc, text

from driftq.errors import DatabaseBusy, DatabaseUnavailable, InvalidArgument
from driftq.sql import Dialect, Transaction, open_database
from driftq.sql.fair_lock import FairLock
from driftq.sql.sqlite import SqliteDatabase


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    database = SqliteDatabase(str(tmp_path / "folder" / "x.db"), busy_timeout_ms=100)
    with database.transaction() as transaction:
        execute(transaction, "CREATE TABLE numbers (n INTEGER NOT NULL)")
    yield database
    database.close()


def execute(transaction: Transaction, sql: str) -> list[tuple]:
    result = transaction.connection.execute(text(sql))
    return [tuple(row) for row in result] if result.returns_rows else []


def numbers(database: SqliteDatabase) -> list[int]:
    with database.snapshot() as transaction:
        return [n for (n,) in execute(transaction, "SELECT n FROM numbers")]


def test_every_connection_writes_ahead_and_syncs_fully(database: SqliteDatabase) -> None:
    for opened in (database.transaction, database.snapshot):
        with opened() as transaction:
            assert execute(transaction, "PRAGMA journal_mode") == [("wal",)]
            assert execute(transaction, "PRAGMA synchronous") == [(2,)]


def test_a_block_that_raises_leaves_nothing(database: SqliteDatabase) -> None:
    with pytest.raises(ZeroDivisionError), database.transaction() as transaction:
        execute(transaction, "INSERT INTO numbers VALUES (1)")
        raise ZeroDivisionError
    assert numbers(database) == []


def test_a_reader_sees_one_moment_and_waits_for_nobody(database: SqliteDatabase) -> None:
    with database.snapshot() as reading:
        assert execute(reading, "SELECT n FROM numbers") == []
        with database.transaction() as transaction:
            execute(transaction, "INSERT INTO numbers VALUES (1)")
            assert numbers(database) == []
        assert execute(reading, "SELECT n FROM numbers") == []
    assert numbers(database) == [1]


def test_a_reader_cannot_write(database: SqliteDatabase) -> None:
    with pytest.raises(exc.OperationalError), database.snapshot() as reading:
        execute(reading, "INSERT INTO numbers VALUES (1)")


def test_writers_of_one_process_take_turns(tmp_path: Path, database: SqliteDatabase) -> None:
    database = SqliteDatabase(str(tmp_path / "folder" / "x.db"))

    def add() -> None:
        for _ in range(20):
            with database.transaction() as transaction:
                [(count,)] = execute(transaction, "SELECT count(*) FROM numbers")
                execute(transaction, f"INSERT INTO numbers VALUES ({count})")

    threads = [threading.Thread(target=add) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers(database)) == list(range(60))
    database.close()


def test_a_turn_goes_to_whoever_has_waited_longest() -> None:
    turns = FairLock()
    served: list[int] = []
    assert turns.take(timeout_s=0)

    def wait(number: int) -> None:
        assert turns.take(timeout_s=10)
        served.append(number)
        turns.give()

    threads = []
    for number in range(5):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[-1].start()
        while turns.waiting < number + 1:
            pass
    assert not turns.take(timeout_s=0.01)
    turns.give()
    for thread in threads:
        thread.join()
    assert served == [0, 1, 2, 3, 4]
    assert turns.take(timeout_s=0)


def test_a_writer_that_waits_too_long_is_told(database: SqliteDatabase) -> None:
    with database.transaction(), pytest.raises(DatabaseBusy) as busy, database.transaction():
        pytest.fail("there is one writer at a time")
    assert busy.value.waited_ms == 100


def test_another_process_that_writes_is_waited_for(database: SqliteDatabase, tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "folder" / "x.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseBusy), database.transaction():
        pytest.fail("the file is locked")
    other.execute("ROLLBACK")
    other.close()
    database.check()


def test_what_is_no_database_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"not a database" * 1000)
    with pytest.raises(DatabaseUnavailable) as away:
        open_database(f"sqlite:///{tmp_path}/x.db")
    assert "not a database" in away.value.cause


def test_a_database_in_memory_is_one_for_all_threads() -> None:
    database = open_database("sqlite:///:memory:")
    assert database.dialect is Dialect.SQLITE
    with database.transaction() as transaction:
        execute(transaction, "CREATE TABLE numbers (n INTEGER NOT NULL)")
    seen: list[object] = []

    def look() -> None:
        with database.snapshot() as reading:
            seen.extend(execute(reading, "SELECT count(*) FROM numbers"))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen == [(0,)]
    database.close()


@pytest.mark.clause("N1")
@pytest.mark.parametrize("url", ["", "mysql://x/y", "events.db", "sqlite+other:///x"])
def test_a_url_that_leads_nowhere_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument):
        open_database(url)

"""The journal of SQLite is emptied beside the writers: nothing is lost, and it does not grow for ever."""

import logging
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftq.sql.checkpoints import Checkpoints
from driftq.sql.fair_lock import FairLock
from driftq.sql.sqlite import SqliteDatabase
from tests.support.waiting import wait_until

PAGE_BYTES = 4096


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "x.db")


@pytest.fixture
def writer(path: str) -> Iterator[sqlite3.Connection]:
    """One that never empties the journal by itself."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0")
    connection.execute("CREATE TABLE texts (text TEXT NOT NULL)")
    yield connection
    connection.close()


@pytest.fixture
def mover(path: str, writer: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    yield connection
    connection.close()


def write(connection: sqlite3.Connection, *, pages: int) -> None:
    """At least so many pages."""
    connection.execute("INSERT INTO texts VALUES (?)", ["x" * PAGE_BYTES * pages])


def journal_pages(path: str) -> int:
    return Path(f"{path}-wal").stat().st_size // PAGE_BYTES


def file_pages(path: str) -> int:
    return Path(path).stat().st_size // PAGE_BYTES


def wait_for_pages(path: str, more_than: int) -> None:
    wait_until(f"the file has more than {more_than} pages", lambda: file_pages(path) > more_than)


class TurnsAfter(FairLock):
    """Something ends when the turn is taken, as the writing of others does."""

    def __init__(self, ended: sqlite3.Connection) -> None:
        super().__init__()
        self._ended = ended

    def take(self, *, timeout_s: float) -> bool:
        self._ended.rollback()
        return super().take(timeout_s=timeout_s)


def test_a_long_journal_is_started_anew(
    path: str, writer: sqlite3.Connection, mover: sqlite3.Connection
) -> None:
    reader = sqlite3.connect(path, isolation_level=None)
    checkpoints = Checkpoints(path, TurnsAfter(reader), step_pages=10, restart_pages=40)
    for _ in range(40):
        write(writer, pages=10)
        # Whoever reads keeps what comes later from being moved: a rest, as a busy writer leaves one.
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM texts").fetchone()
        write(writer, pages=10)
        checkpoints.step(mover)
        reader.rollback()
    reader.close()
    assert 40 <= journal_pages(path) <= 100


def test_a_journal_that_is_read_from_is_left_alone(
    path: str, writer: sqlite3.Connection, mover: sqlite3.Connection
) -> None:
    checkpoints = Checkpoints(path, FairLock(), step_pages=10, restart_pages=40)
    reader = sqlite3.connect(path, isolation_level=None)
    write(writer, pages=10)
    reader.execute("BEGIN")
    seen = reader.execute("SELECT count(*) FROM texts").fetchone()
    for _ in range(10):
        write(writer, pages=10)
        checkpoints.step(mover)
    assert reader.execute("SELECT count(*) FROM texts").fetchone() == seen == (1,)
    reader.close()
    assert writer.execute("SELECT count(*) FROM texts").fetchone() == (11,)


def test_steps_come_by_themselves_while_others_write(path: str) -> None:
    database = SqliteDatabase(path)
    with database.transaction() as transaction:
        transaction.connection.exec_driver_sql("CREATE TABLE texts (text TEXT NOT NULL)")
    before = file_pages(path)
    for _ in range(100):
        with database.transaction() as transaction:
            transaction.connection.exec_driver_sql(
                "INSERT INTO texts VALUES (?)", [("x" * 100,) for _ in range(50)]
            )
    wait_for_pages(path, before)
    database.close()
    with sqlite3.connect(path) as again:
        assert again.execute("SELECT count(*) FROM texts").fetchone() == (5000,)
        assert again.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    again.close()


@pytest.mark.parametrize("restart_pages", [100, 100_000])
def test_it_learns_how_many_pages_a_row_costs(
    path: str, writer: sqlite3.Connection, restart_pages: int
) -> None:
    checkpoints = Checkpoints(path, FairLock(), step_pages=100, restart_pages=restart_pages)
    guessed = checkpoints.rows_due
    commits = guessed // 3 + 1  # Each has one row, and counts for two more.
    for rows in range(1, commits + 1):
        write(writer, pages=50)
        checkpoints.written(rows)
    wait_until("the step is over", lambda: checkpoints.steps_done == 1)  # To its end: it may begin anew.
    assert checkpoints.rows_due == 5  # 51 pages for three, so 100 for nearly six.
    for rows in range(commits + 1, commits + 6):
        write(writer, pages=50)
        checkpoints.written(rows)
        wait_for_pages(path, (rows - 2) * 50)
    checkpoints.close()


def test_what_a_small_file_taught_does_not_let_the_journal_grow_without_bounds(
    path: str, writer: sqlite3.Connection, mover: sqlite3.Connection
) -> None:
    checkpoints = Checkpoints(path, FairLock(), step_pages=100, restart_pages=1000)
    write(writer, pages=10)
    checkpoints.step(mover, rows=10_000)
    assert checkpoints.rows_due == 50


def test_closing_waits_for_the_step_that_is_under_way(path: str, writer: sqlite3.Connection) -> None:
    turns = FairLock()
    checkpoints = Checkpoints(path, turns, step_pages=10, restart_pages=20)
    write(writer, pages=30)
    assert turns.take(timeout_s=0)
    checkpoints.written(1_000)
    wait_until("the step asks for the turn", lambda: turns.waiting == 1)
    closing = threading.Thread(target=checkpoints.close)
    closing.start()
    turns.give()
    closing.join(timeout=30)
    assert not closing.is_alive()


def test_a_step_that_fails_is_told_and_the_next_one_tried(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoints = Checkpoints(str(tmp_path), FairLock(), step_pages=4)
    with caplog.at_level(logging.WARNING):
        checkpoints.written(1_000)
        wait_until("it was told", lambda: len(caplog.records) == 1)
        checkpoints.written(2_000)
        wait_until("it was told again", lambda: len(caplog.records) == 2)
    assert all("a checkpoint of" in record.message for record in caplog.records)
    checkpoints.close()

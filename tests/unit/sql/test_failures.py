"""What the drivers complain about is told apart: away, busy, to be repeated, or a mistake in the SQL."""

import sqlite3

import psycopg
import pytest
from sqlalchemy import exc

from driftq.errors import DatabaseBusy, DatabaseUnavailable, TransactionConflict
from driftq.sql import Transaction, key_text, open_database, perform, storable
from driftq.sql.failures import translate


def postgres(state: str | None, kind: type[exc.DBAPIError] = exc.OperationalError) -> exc.DBAPIError:
    cause = psycopg.errors.lookup(state)("said") if state else psycopg.OperationalError("refused")
    return kind("SELECT 1", {}, cause)


def sqlite(code: int) -> exc.DBAPIError:
    cause = sqlite3.OperationalError("said")
    cause.sqlite_errorcode = code
    return exc.OperationalError("SELECT 1", {}, cause)


@pytest.mark.clause("K7")
@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (postgres(None), DatabaseUnavailable),
        (postgres("57P01"), DatabaseUnavailable),
        (postgres("57P03"), DatabaseUnavailable),
        (postgres("08006"), DatabaseUnavailable),
        (postgres("53300"), DatabaseUnavailable),
        (postgres("25006"), DatabaseUnavailable),
        (postgres("55P03"), DatabaseBusy),
        (postgres("40P01"), TransactionConflict),
        (postgres("40001"), TransactionConflict),
        (sqlite(5), DatabaseBusy),
        (sqlite(5 | 1 << 8), DatabaseBusy),
        (sqlite(13), DatabaseUnavailable),
        (sqlite(10 | 3 << 8), DatabaseUnavailable),
        (exc.TimeoutError(), DatabaseBusy),
    ],
)
def test_complaints_about_the_database(error: exc.SQLAlchemyError, meaning: type[Exception]) -> None:
    assert type(translate(error, address="here", waited_ms=1)) is meaning


@pytest.mark.parametrize(
    "error",
    [
        postgres("42601", exc.ProgrammingError),
        postgres("23505", exc.IntegrityError),
        sqlite(1),
        exc.ArgumentError(),
    ],
)
def test_complaints_about_the_statement_are_left_alone(error: exc.SQLAlchemyError) -> None:
    assert translate(error, address="here", waited_ms=1) is None


def test_a_commit_that_broke_off_is_not_confirmed() -> None:
    meant = translate(postgres(None), address="here", waited_ms=1, committing=True)
    assert isinstance(meant, DatabaseUnavailable)
    assert meant.unconfirmed
    assert "may or may not" in str(meant)


def test_work_is_repeated_where_the_database_asks_for_it() -> None:
    database = open_database("sqlite:///:memory:")
    tries = 0

    def work(_: Transaction) -> str:
        nonlocal tries
        tries += 1
        if tries in (1, 2, 4, 5):
            raise TransactionConflict("here", cause="deadlock")
        return "done"

    assert perform(database, work) == "done"
    assert tries == 3
    with pytest.raises(TransactionConflict):
        perform(database, work, tries=2)
    database.close()


@pytest.mark.clause("X7")
def test_notes_are_made_fit_and_keys_are_not_touched() -> None:
    assert storable("a\x00b\ud800") == "a\\x00b\\ud800"
    for key in ("", " A ", "á", "a\u0301", "\n", "a:b/c%d"):
        assert key_text("key", key) == key

"""Each pattern with a handler that runs twice: the second run changes nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from driftq.errors import InvalidArgument
from driftq.jobs import compare_and_set, once, update_if, upsert
from driftq.registry.processed_jobs import ProcessedJobs
from driftq.sql import Database, Transaction, open_database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = open_database(f"sqlite:///{tmp_path / 'app.db'}")
    with database.transaction() as transaction:
        execute(
            transaction, "CREATE TABLE account (id TEXT PRIMARY KEY, balance INT, state TEXT, version INT)"
        )
        execute(transaction, "INSERT INTO account VALUES ('ada', 100, 'open', 1)")
    yield database
    database.close()


def execute(transaction: Transaction, statement: str) -> Any:
    return transaction.connection.execute(text(statement))


def account(database: Database) -> tuple:
    with database.snapshot() as transaction:
        return tuple(execute(transaction, "SELECT balance, state, version FROM account").one())


@pytest.mark.clause("J12", "J13", "J12a")
def test_key_check(database: Database) -> None:
    processed = ProcessedJobs(database, scope="invoices")

    def handler() -> str | None:
        def charge(transaction: Transaction) -> str:
            execute(transaction, "UPDATE account SET balance = balance - 10")
            return "charged"

        return once(database, processed, "invoice-17", charge)

    assert [handler(), handler()] == ["charged", None]
    assert account(database)[0] == 90
    assert processed.find("invoice-17") is not None


@pytest.mark.clause("J12", "J13", "J12b")
def test_key_check_leaves_no_trace_of_a_change_that_failed(database: Database) -> None:
    processed = ProcessedJobs(database)

    def fail(transaction: Transaction) -> None:
        execute(transaction, "UPDATE account SET balance = 0")
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        once(database, processed, "job-1", fail)
    assert (processed.find("job-1"), account(database)[0]) == (None, 100)


@pytest.mark.clause("J13")
def test_upsert(database: Database) -> None:
    for _ in range(2):
        with database.transaction() as transaction:
            upsert(transaction, "account", key={"id": "ada"}, values={"balance": 55, "state": "open"})
    assert account(database) == (55, "open", 1)


@pytest.mark.clause("J13")
def test_conditional_update(database: Database) -> None:
    def handler() -> bool:
        with database.transaction() as transaction:
            return update_if(
                transaction,
                "account",
                key={"id": "ada"},
                expected={"state": "open"},
                values={"state": "closed", "balance": 0},
            )

    assert [handler(), handler()] == [True, False]
    assert account(database) == (0, "closed", 1)


@pytest.mark.clause("J13")
def test_version_checked_update(database: Database) -> None:
    def handler() -> bool:
        with database.transaction() as transaction:
            return compare_and_set(
                transaction, "account", key={"id": "ada"}, expected_version=1, values={"balance": 90}
            )

    assert [handler(), handler()] == [True, False]
    assert account(database) == (90, "open", 2)


def test_names_are_plain(database: Database) -> None:
    with database.transaction() as transaction, pytest.raises(InvalidArgument):
        upsert(transaction, "account; DROP TABLE account", key={"id": 1}, values={})

"""What a transaction and a snapshot promise, on SQLite and PostgreSQL alike."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import exc

from driftq.sql import Database, Dialect, Transaction, open_database


class Kept:
    """A table of numbers."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._table = f"kept_{uuid.uuid4().hex[:12]}"
        with database.transaction() as transaction:
            transaction.connection.exec_driver_sql(f"CREATE TABLE {self._table} (number bigint)")

    def add(self, transaction: Transaction, number: int) -> None:
        transaction.connection.exec_driver_sql(f"INSERT INTO {self._table} VALUES ({number})")

    def seen_by(self, transaction: Transaction) -> list[int]:
        rows = transaction.connection.exec_driver_sql(f"SELECT number FROM {self._table} ORDER BY number")
        return [row[0] for row in rows]

    def numbers(self) -> list[int]:
        with self.database.snapshot() as snapshot:
            return self.seen_by(snapshot)


@pytest.fixture(params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    if request.param == "sqlite":
        database = open_database(f"sqlite:///{tmp_path}/kept.db")
    else:
        database = open_database(request.getfixturevalue("postgres_database_url"), connections=2)
    yield Kept(database)
    database.close()


@pytest.mark.parametrize("planned_once", [False, True])
def test_a_block_is_kept_when_it_ends_and_dropped_when_it_raises(kept: Kept, planned_once: bool) -> None:
    with kept.database.transaction(planned_once=planned_once) as transaction:
        kept.add(transaction, 1)
    with (
        pytest.raises(RuntimeError),
        kept.database.transaction(planned_once=planned_once) as transaction,
    ):
        kept.add(transaction, 2)
        raise RuntimeError
    with kept.database.transaction(planned_once=planned_once) as transaction:
        kept.add(transaction, 3)
    assert kept.numbers() == [1, 3]


def test_a_statement_that_fails_takes_its_transaction_with_it(kept: Kept) -> None:
    with pytest.raises(exc.SQLAlchemyError), kept.database.transaction() as transaction:
        kept.add(transaction, 1)
        transaction.connection.exec_driver_sql("SELECT nothing FROM nowhere")
    with kept.database.transaction() as transaction:
        kept.add(transaction, 2)
    assert kept.numbers() == [2]


def test_a_snapshot_is_of_one_moment_and_cannot_write(kept: Kept) -> None:
    with kept.database.transaction() as transaction:
        kept.add(transaction, 1)
    with kept.database.snapshot() as snapshot:
        assert kept.seen_by(snapshot) == [1]
        with kept.database.transaction() as transaction:
            kept.add(transaction, 2)
        assert kept.seen_by(snapshot) == [1]
    with pytest.raises(exc.SQLAlchemyError), kept.database.snapshot() as snapshot:
        kept.add(snapshot, 3)
    assert kept.numbers() == [1, 2]


def test_how_one_transaction_plans_is_not_how_the_next_one_does(kept: Kept) -> None:
    if kept.database.dialect is Dialect.SQLITE:
        return  # It has no such setting.
    for planned_once, mode in [(True, "force_generic_plan"), (False, "force_custom_plan")] * 3:
        with kept.database.transaction(planned_once=planned_once) as transaction:
            said = transaction.connection.exec_driver_sql("SHOW plan_cache_mode").scalar_one()
        assert said == mode

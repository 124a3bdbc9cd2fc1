"""The same registry on both engines, with a clock that the tests move."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sql import Database, DatabaseClock, open_database, upgrade
from driftq.testing.clock import VirtualClock
from tests.services_postgres import postgres_database_url, postgres_url, private_postgres
from tests.support.forked import PROCESSES

__all__ = ["postgres_database_url", "postgres_url", "private_postgres"]

OpenDatabase = Callable[[DatabaseClock | None], Database]
_schemas = itertools.count()


@pytest.fixture(params=PROCESSES, autouse=True)
def process(request: pytest.FixtureRequest) -> str:
    """Where the test's body runs: here, or in a child that was forked when everything had been made."""
    return str(request.param)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture(params=["sqlite", "postgres"])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenDatabase]:
    """Opens one and the same fresh database, as another process would; None for its own clock."""
    opened: list[Database] = []
    schema = f"run_{next(_schemas)}"

    def open_it(clock: DatabaseClock | None) -> Database:
        if request.param == "sqlite":
            database = open_database(f"sqlite:///{tmp_path}/registry.db", clock=clock)
        else:
            url = request.getfixturevalue("postgres_database_url")
            database = open_database(url, schema=schema, clock=clock)
        upgrade(database, [MIGRATIONS])
        opened.append(database)
        return database

    yield open_it
    for database in opened:
        database.close()


@pytest.fixture
def database(open_again: OpenDatabase, clock: VirtualClock) -> Database:
    return open_again(clock)


@pytest.fixture
def registry(database: Database) -> SqlRegistry:
    return SqlRegistry(database, owner="first", random=Random(1))


@pytest.fixture
def other(database: Database) -> SqlRegistry:
    """A second worker on the same database."""
    return SqlRegistry(database, owner="second", random=Random(2))

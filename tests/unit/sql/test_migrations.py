"""Tables change step by step, each once, and a release refuses tables that are not its own."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import inspect

from driftq.errors import SchemaOutdated, SchemaTooNew
from driftq.registry.sql_registry import MIGRATIONS
from driftq.sql import Applied, Database, Dialect, Migrations, open_database, prepare, require, upgrade
from driftq.sql.migrations import Migration

FIRST = Migration(
    1, "toys", None, "-- Why: toys.\nCREATE TABLE {toys} (id {text});\nCREATE INDEX toys_id ON {toys} (id);"
)
SECOND = Migration(2, "colour", None, "ALTER TABLE {toys} ADD COLUMN colour {text};")
BROKEN = Migration(
    2, "broken", None, "CREATE TABLE {more} (id {text});\nALTER TABLE {nothing} ADD COLUMN x {text};"
)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = open_database(f"sqlite:///{tmp_path}/x.db")
    yield database
    database.close()


def tables(database: Database) -> set[str]:
    with database.snapshot() as transaction:
        return set(inspect(transaction.connection).get_table_names())


def test_each_change_is_made_once(database: Database) -> None:
    assert upgrade(database, [Migrations("toys", [FIRST])]) == [Applied("toys", 1, "toys")]
    both = Migrations("toys", [SECOND, FIRST])
    assert upgrade(database, [both]) == [Applied("toys", 2, "colour")]
    assert upgrade(database, [both]) == []


def test_a_change_that_fails_leaves_nothing(database: Database) -> None:
    with pytest.raises(Exception, match="nothing"):
        upgrade(database, [Migrations("toys", [FIRST, BROKEN])])
    assert tables(database) == {"toys", "schema_versions"}
    assert upgrade(database, [Migrations("toys", [FIRST, SECOND])]) == [Applied("toys", 2, "colour")]


def test_sqlite_upgrades_itself(database: Database) -> None:
    with pytest.raises(SchemaOutdated) as outdated:
        require(database, [Migrations("toys", [FIRST])])
    assert (outdated.value.found, outdated.value.needed) == (0, 1)
    prepare(database, [Migrations("toys", [FIRST])])
    prepare(database, [Migrations("toys", [FIRST])])
    assert "toys" in tables(database)


def test_tables_of_a_newer_release_are_refused(database: Database) -> None:
    upgrade(database, [Migrations("toys", [FIRST, SECOND])])
    with pytest.raises(SchemaTooNew) as newer:
        prepare(database, [Migrations("toys", [FIRST])])
    assert (newer.value.found, newer.value.known) == (2, 1)


def test_rooms_are_upgraded_apart(database: Database) -> None:
    prepare(database, [MIGRATIONS])
    prepare(database, [Migrations("toys", [FIRST])])
    assert {"claims", "positions", "processed_jobs", "toys"} <= tables(database)


def test_two_upgrades_at_once_are_one(tmp_path: Path) -> None:
    databases = [open_database(f"sqlite:///{tmp_path}/y.db") for _ in range(4)]
    applied: list[Applied] = []
    threads = [
        threading.Thread(target=lambda one=one: applied.extend(upgrade(one, [MIGRATIONS])))
        for one in databases
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    newest = MIGRATIONS.version(Dialect.SQLITE)
    assert sorted(step.version for step in applied) == list(range(1, newest + 1))
    for one in databases:
        one.close()


@pytest.mark.parametrize("dialect", list(Dialect))
def test_versions_are_numbered_without_gaps(dialect: Dialect) -> None:
    versions = [change.version for change in MIGRATIONS.changes(dialect)]
    assert versions == list(range(1, len(versions) + 1))

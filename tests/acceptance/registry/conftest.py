"""Where the workers of a crash test live: a database of either engine, and a file for outside effects."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import text

from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sql import Database, open_database, upgrade
from tests.services_postgres import postgres_database_url, postgres_url

__all__ = ["postgres_database_url", "postgres_url"]
_schemas = itertools.count()


@dataclass(frozen=True)
class Site:
    """What worker processes are told, and what the test looks at afterwards."""

    url: str
    schema: str
    folder: Path
    database: Database
    registry: SqlRegistry

    def effects_in_database(self) -> dict[str, int]:
        """How often each event had its effect in the table `effects`."""
        query = self.database.renderer.render("SELECT event_id, count(*) FROM {effects} GROUP BY event_id")
        with self.database.snapshot() as transaction:
            return {row[0]: row[1] for row in transaction.connection.execute(text(query))}

    def lines(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture(params=["sqlite", "postgres"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/registry.db"
    else:
        url = request.getfixturevalue("postgres_database_url")
    schema = f"crash_{next(_schemas)}"
    database = open_database(url, schema=schema)
    upgrade(database, [MIGRATIONS])
    with database.transaction() as transaction:
        made = "CREATE TABLE {effects} (event_id {text} NOT NULL, token {bigint} NOT NULL)"
        transaction.connection.execute(text(database.renderer.render(made)))
    yield Site(url, schema, tmp_path, database, SqlRegistry(database, owner="test"))
    database.close()

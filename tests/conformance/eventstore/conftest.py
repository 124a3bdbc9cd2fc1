"""An event store on each engine, each with its own kind of object storage."""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from driftq.eventstore import EventStore, SealOptions, StoreOptions, event_migrations
from driftq.eventstore.objects import JoinableObjects, S3Access, open_objects
from driftq.eventstore.seal.sealer import Sealer
from driftq.sql import Database, DatabaseClock, open_database, upgrade
from tests.services_postgres import postgres_database_url, postgres_url
from tests.services_s3 import S3Server, s3_server

__all__ = ["postgres_database_url", "postgres_url", "s3_server"]

ENGINES = ("sqlite", "postgres")
PLACES = {"sqlite": "folder", "postgres": "s3"}


class Setup:
    """A fresh database and a fresh place for segments; opened as often as a test likes."""

    def __init__(self, engine: str, url: str, objects: Callable[[], JoinableObjects]) -> None:
        self.engine = engine
        self.url = url
        self.schema = f"t{uuid.uuid4().hex[:12]}"
        self._objects = objects
        self._opened: list[Database] = []
        self.objects: JoinableObjects = objects()

    def database(self, *, clock: DatabaseClock | None = None, **options: Any) -> Database:
        schemas = {"sequence": options.get("sequence_schema", f"{self.schema}_sequence")}
        database = open_database(self.url, schema=self.schema, schemas=schemas, clock=clock)
        self._opened.append(database)
        upgrade(database, event_migrations(database))
        return database

    def store(self, database: Database | None = None, **options: Any) -> EventStore:
        return EventStore(
            database or self.database(**options), options=StoreOptions(**options), objects=self.objects
        )

    def sealer(self, database: Database | None = None, *, owner: str = "a", **options: Any) -> Sealer:
        sealer = Sealer(
            database or self.database(), self.objects, owner=owner, options=SealOptions(**options)
        )
        assert sealer.take(force=True)
        return sealer

    def emptied(self) -> "Setup":
        """The same segments with a database that was lost and made anew."""
        url = self.url if self.engine == "postgres" else f"{self.url}.new"
        return Setup(self.engine, url, self._objects)

    def close(self) -> None:
        for database in self._opened:
            database.close()


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def setup(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Setup]:
    objects = _place(PLACES[engine], request, tmp_path)
    made = Setup(engine, _address(engine, request, tmp_path), objects)
    yield made
    made.close()


@pytest.fixture
def store(setup: Setup) -> EventStore:
    return setup.store()


def _address(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if engine == "sqlite":
        return f"sqlite:///{tmp_path / 'events.db'}"
    return str(request.getfixturevalue("postgres_database_url"))


def _place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], JoinableObjects]:
    if kind == "folder":
        return lambda: open_objects((tmp_path / "objects").as_uri())
    server: S3Server = request.getfixturevalue("s3_server")
    access = S3Access(server.endpoint, server.region, server.access_key_id, server.secret_access_key)
    url = server.fresh_url()
    return lambda: open_objects(url, access=access)

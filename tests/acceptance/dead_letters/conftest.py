"""A server, and an outbox of each kind on each engine."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.dead_letters.outboxes import KINDS, Place
from tests.contract.serving import Server
from tests.services_postgres import postgres_database_url, postgres_url

__all__ = ["postgres_database_url", "postgres_url"]
_schemas = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


@pytest.fixture(params=[f"{kind}-{engine}" for kind in KINDS for engine in ("sqlite", "postgres")])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    kind, engine = request.param.split("-")
    if engine == "sqlite":
        url = f"sqlite:///{tmp_path}/dead_letters.db"
    else:
        url = request.getfixturevalue("postgres_database_url")
    return Place(kind, url, f"letters_{next(_schemas)}")

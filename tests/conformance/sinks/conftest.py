"""The same read model in each target, and a second hand on it, as another process would have."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from driftq.sinks import ParquetSink, PostgresSink, ReadModel, ReadModelSink, SqliteSink
from tests.services_postgres import postgres_database_url, postgres_url, private_postgres

__all__ = ["postgres_database_url", "postgres_url", "private_postgres"]

Connect = Callable[[], ReadModel]
NAME = "orders_by_id"
_schemas = itertools.count()


@pytest.fixture(params=["sqlite", "postgres", "parquet"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> ReadModelSink:
    if request.param == "sqlite":
        return SqliteSink(f"{tmp_path}/read_models.db")
    if request.param == "parquet":
        return ParquetSink(f"{tmp_path}/read_models")
    url = request.getfixturevalue("postgres_database_url")
    return PostgresSink(url, schema=f"run_{next(_schemas)}")


@pytest.fixture
def connect(sink: ReadModelSink) -> Iterator[Connect]:
    opened: list[ReadModel] = []

    def open_one() -> ReadModel:
        opened.append(sink.connect(NAME))
        return opened[-1]

    yield open_one
    for model in opened:
        model.close()


@pytest.fixture
def model(connect: Connect) -> ReadModel:
    return connect()

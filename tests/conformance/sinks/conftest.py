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


@pytest.fixture
def postgres_sink(postgres_database_url: str) -> PostgresSink:
    return PostgresSink(postgres_database_url, schema=f"run_{next(_schemas)}")


@pytest.fixture
def any_sink(tmp_path: Path, postgres_sink: PostgresSink) -> dict[str, ReadModelSink]:
    return {
        "sqlite": SqliteSink(f"{tmp_path}/read_models.db"),
        "postgres": postgres_sink,
        "parquet": ParquetSink(f"{tmp_path}/read_models"),
    }


@pytest.fixture(params=["sqlite", "postgres", "parquet"])
def sink(request: pytest.FixtureRequest, any_sink: dict[str, ReadModelSink]) -> ReadModelSink:
    return any_sink[request.param]


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

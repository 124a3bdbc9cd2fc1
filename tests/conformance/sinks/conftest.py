"""The targets that the suites run on."""

import itertools
from pathlib import Path

import pytest

from driftq.sinks import ParquetSink, PostgresSink, ReadModelSink, SqliteSink
from tests.services_postgres import postgres_database_url, postgres_url, private_postgres

__all__ = ["postgres_database_url", "postgres_url", "private_postgres"]

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

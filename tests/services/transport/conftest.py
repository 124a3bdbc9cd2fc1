"""The same stories on each transport: DriftQ's topics on a server, Kafka's on a broker."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from driftq.model.options.kafka import KafkaOptions
from driftq.settings import load_settings
from driftq.sinks import ParquetSink, PostgresSink, ReadModelSink, SqliteSink
from tests.harness import ServerProcess
from tests.services.transport.stage import DriftqStage, KafkaStage, TransportStage
from tests.services_kafka import kafka
from tests.services_postgres import postgres_database_url, postgres_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["kafka", "postgres_database_url", "postgres_url"]

_numbers = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The test matrix runs these tests on an older pyspark too."""
    import pyspark

    if pyspark.__version__.startswith("4.0."):
        for item in items:
            # It leaves the sockets of its results to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as started:
        yield started


@pytest.fixture(params=["driftq", "kafka"])
def stage(
    request: pytest.FixtureRequest, server: ServerProcess, spark: SparkSession, tmp_path: Path
) -> TransportStage:
    options = load_settings(environ={}).pipeline(url=f"http://127.0.0.1:{server.port}", data=str(tmp_path))
    options = replace(options, registry=replace(options.registry, projection_retries_max=1))
    topic = f"orders-{next(_numbers)}"
    if request.param == "driftq":
        return DriftqStage(options, spark, topic, server)
    reached: KafkaOptions = request.getfixturevalue("kafka")
    return KafkaStage(replace(options, transport="kafka", kafka=reached), spark, topic)


@pytest.fixture
def sinks(tmp_path: Path, postgres_database_url: str) -> list[ReadModelSink]:
    """Targets that the driver writes, and those that tasks write."""
    return [
        SqliteSink(f"{tmp_path}/rows.db"),
        PostgresSink(postgres_database_url, schema=f"run_{next(_numbers)}"),
        ParquetSink(f"{tmp_path}/rows"),
    ]

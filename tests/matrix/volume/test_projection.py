"""A hundred thousand mixed events on Spark, to every target that needs no service of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from driftq.settings import load_settings
from driftq.sinks import DeltaSink, ParquetSink, PostgresSink, ReadModelSink, SqliteSink
from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url
from tests.spark.conftest import spark
from tests.spark.events import history
from tests.spark.mixed_events import project_mixed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["postgres_database_url", "postgres_url", "spark"]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as started:
        yield started


@pytest.mark.clause("V1", "V2", "V8", "X4", "Z6", "V2a", "V2b", "V2c")
@pytest.mark.timeout(900)
def test_a_hundred_thousand_mixed_events_come_to_what_ordered_single_delivery_gives(
    spark: SparkSession, server: ServerProcess, tmp_path: Path, postgres_database_url: str
) -> None:
    options = load_settings().pipeline(url=f"http://127.0.0.1:{server.port}", data=str(tmp_path))
    options = replace(options, registry=replace(options.registry, projection_retries_max=1))
    sinks: list[ReadModelSink] = [
        SqliteSink(f"{tmp_path}/rows.db"),
        PostgresSink(postgres_database_url),
        ParquetSink(f"{tmp_path}/rows"),
        DeltaSink(f"{tmp_path}/delta"),
    ]
    project_mixed(spark, server, options, sinks, history(10_000, 10))

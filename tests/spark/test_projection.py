"""Projections on Spark: whatever a topic holds, the read model is that of ordered single delivery."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from driftq.core.pipeline_options import PipelineOptions
from driftq.errors import ProjectionFenced
from driftq.pipeline import Projection, latest_state, ordered
from driftq.pipeline.read_model import dead_letters, rows
from driftq.settings import load_settings
from driftq.sinks import ParquetSink, PostgresSink, ReadModel, ReadModelSink, SqliteSink
from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url
from tests.spark.events import create, event, expected, found, history, mixed, send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["postgres_database_url", "postgres_url"]


@pytest.fixture
def options(url: str, tmp_path: Path) -> PipelineOptions:
    made = load_settings().pipeline(url=url, data=str(tmp_path))
    return replace(made, registry=replace(made.registry, projection_retries_max=1))


@pytest.fixture
def sinks(tmp_path: Path, postgres_database_url: str) -> list[ReadModelSink]:
    return [
        SqliteSink(f"{tmp_path}/rows.db"),
        PostgresSink(postgres_database_url),
        ParquetSink(f"{tmp_path}/rows"),
    ]


@pytest.fixture
def sink(tmp_path: Path) -> SqliteSink:
    return SqliteSink(f"{tmp_path}/one.db")


def models(sinks: list[ReadModelSink], name: str) -> Iterator[ReadModel]:
    for sink in sinks:
        model = sink.connect(name)
        yield model
        model.close()


@pytest.mark.clause("V1", "V2", "X4", "Z6")
@pytest.mark.timeout(90)
def test_a_hundred_thousand_mixed_events_come_to_what_ordered_single_delivery_gives(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, sinks: list[ReadModelSink]
) -> None:
    create(server, "events.order", partitions=3)
    events = history(10_000, 10)
    arriving = mixed(events, seed=1)
    projection = Projection("orders", topic="events.order", sinks=sinks, batch_messages_max=60_000)
    send(server, "events.order", arriving[:80_000])
    projection.run(spark, options=options, once=True)
    shutil.rmtree(options.checkpoint("projection-orders"))  # Lost: where it was, the targets know.
    send(server, "events.order", arriving[80_000:])
    projection.run(spark, options=options, once=True)
    projection.run(spark, options=options, once=True)
    for model in models(sinks, "orders"):
        assert found(model) == expected(events)
        assert list(model.dead_letters()) == []
        assert sum(model.positions().values()) > 0

"""A projection on Spark into TerminusDB: written by tasks, rebuilt, and seen in the branch of its readers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from driftq.pipeline import Projection
from driftq.settings import load_settings
from driftq.sinks.terminusdb import TerminusSink
from tests.harness import ServerProcess
from tests.services_terminusdb import terminus_database_url, terminus_url
from tests.spark.events import create, expected, found, history, mixed, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["terminus_database_url", "terminus_url"]


@pytest.mark.clause("V1", "V4", "V7", "V10")
@pytest.mark.timeout(600)
def test_shuffled_and_doubled_events_converge_and_a_rebuild_gives_the_same(
    spark: SparkSession, server: ServerProcess, url: str, tmp_path: Path, terminus_database_url: str
) -> None:
    sink = TerminusSink(terminus_database_url)
    options = load_settings().pipeline(url=url, data=str(tmp_path))
    events = history(20, 6)
    create(server, "events.graph", partitions=2)
    projection = Projection("graph", topic="events.graph", sink=sink, batch_messages_max=100)
    for part in (mixed(events, seed=1)[:80], mixed(events, seed=2)):
        send(server, "events.graph", part)
        projection.run(spark, options=options, once=True)
    model = sink.connect("graph")
    assert found(model) == expected(events)
    before = model.positions()
    projection.rebuild(options).run(spark, lambda _: None)
    assert found(model) == expected(events)
    assert model.positions() == before
    shown = sink.open_store("graph")._server.read("graph", {"type": "Graph"})
    assert {one["aggregate_id"]: one["sequence"] for one in shown if "state" in one} == {
        row.aggregate_id: row.sequence_number for row in model.rows()
    }
    model.close()

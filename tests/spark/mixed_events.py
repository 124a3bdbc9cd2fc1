"""Shuffled and doubled events, and a lost checkpoint: each target gets what ordered delivery gives."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline import Projection
from driftq.sinks import ReadModel, ReadModelSink
from tests.harness import ServerProcess
from tests.spark.events import Event, create, expected, found, mixed, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def models(sinks: Sequence[ReadModelSink], name: str) -> Iterator[ReadModel]:
    for sink in sinks:
        model = sink.connect(name)
        yield model
        model.close()


def project_mixed(
    spark: SparkSession,
    server: ServerProcess,
    options: PipelineOptions,
    sinks: Sequence[ReadModelSink],
    events: Sequence[Event],
) -> None:
    """In batches of more than half of them; after the first run its checkpoint is removed."""
    create(server, "events.order", partitions=3)
    arriving = mixed(events, seed=1)
    most = len(arriving) * 3 // 4
    projection = Projection(
        "orders", topic="events.order", sinks=list(sinks), batch_messages_max=len(events) * 3 // 5
    )
    send(server, "events.order", arriving[:most])
    projection.run(spark, options=options, once=True)
    shutil.rmtree(options.checkpoint("projection-orders"))  # Lost: where it was, the targets know.
    send(server, "events.order", arriving[most:])
    projection.run(spark, options=options, once=True)
    projection.run(spark, options=options, once=True)
    for model in models(sinks, "orders"):
        assert found(model) == expected(events)
        assert list(model.dead_letters()) == []
        assert sum(model.positions().values()) > 0

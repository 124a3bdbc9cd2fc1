"""Topics as a Spark source: what is read, in which pieces, and what a restart does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.harness import ServerProcess
from tests.spark.topics import create, fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def run_once(rows: DataFrame, *, checkpoint: str, into: list[list[str]]) -> None:
    """One run with AvailableNow; the event ids of each batch are added to `into`."""

    def take(batch: DataFrame, _: int) -> None:
        into.append(sorted(row.event_id for row in batch.select("event_id").collect()))

    query = (
        rows.writeStream.option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .foreachBatch(take)
        .start()
    )
    query.awaitTermination(60)
    assert not query.isActive


@pytest.mark.clause("Z2")
def test_a_batch_reads_every_message_with_its_columns(
    spark: SparkSession, server: ServerProcess, url: str
) -> None:
    create(server, "columns")
    envelope = {"run_id": "r", "step_id": "s", "tenant_id": "t", "idempotency_key": "i"}
    value = json.dumps(
        {"event_id": "e", "aggregate_type": "order", "aggregate_id": "a", "sequence_number": 7}
    )
    server.client().post(
        "/v1/produce", {"topic": "columns", "key": "k", "value": value, "envelope": envelope}
    )
    server.client().post("/v1/produce", {"topic": "columns", "value": "no event\nof ours"})
    rows = spark.read.format("driftq").option("url", url).option("subscribe", "columns").load()
    first, second = rows.orderBy("offset").collect()
    assert (first.key, first.value, first.topic, first.offset) == ("k", value, "columns", 0)
    assert json.loads(first.envelope) == envelope
    assert (first.run_id, first.step_id, first.tenant_id, first.idempotency_key) == ("r", "s", "t", "i")
    assert (first.event_id, first.aggregate_type, first.aggregate_id, first.sequence_number) == (
        "e",
        "order",
        "a",
        7,
    )
    assert (second.value, second.envelope, second.event_id) == ("no event\nof ours", None, None)


@pytest.mark.clause("Z2", "Z6")
def test_a_stream_goes_on_where_it_was(
    spark: SparkSession, server: ServerProcess, url: str, checkpoint: str
) -> None:
    create(server, "going-on")
    rows = spark.readStream.format("driftq").option("url", url).option("subscribe", "going-on").load()
    batches: list[list[str]] = []
    fill(server, "going-on", 100)
    run_once(rows, checkpoint=checkpoint, into=batches)
    fill(server, "going-on", 50, first=100)
    run_once(rows, checkpoint=checkpoint, into=batches)
    run_once(rows, checkpoint=checkpoint, into=batches)
    assert batches == [sorted(f"e{n}" for n in range(100)), sorted(f"e{n}" for n in range(100, 150))]

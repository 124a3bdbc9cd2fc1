"""Topics as a Spark source, with Spark: what is read, in which pieces, and what a restart does."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException

from driftq.pipeline.source.lag import messages_behind
from driftq.tables.reader import read_table, table_files
from tests.harness import ServerProcess
from tests.spark.topics import create, fill
from tests.spark.waiting import run_to_end, wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Batches = list[tuple[int, list[str]]]


def run_once(
    rows: DataFrame, *, checkpoint: str, into: Batches, fail_at: int | None = None
) -> StreamingQuery:
    """A run with AvailableNow; the id and the event ids of each batch are added to `into`."""

    def take(batch: DataFrame, batch_id: int) -> None:
        found = [row.event_id for row in batch.select("event_id").collect()]
        into.append((batch_id, sorted(found, key=lambda one: int(one[1:]))))
        if batch_id == fail_at:
            raise RuntimeError("the power is gone, after the effect and before Spark knows")

    writing = rows.writeStream.option("checkpointLocation", checkpoint).foreachBatch(take)
    return run_to_end(writing.trigger(availableNow=True).start)


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


@pytest.mark.clause("P9", "Z2")
def test_a_batch_reads_a_delayed_message_that_no_group_gets_yet(
    spark: SparkSession, server: ServerProcess, url: str
) -> None:
    create(server, "delayed", partitions=1)
    envelope = {"deliver_at": "2100-01-01T00:00:00Z"}
    for value, given in (("waits", {"envelope": envelope}), ("plain", {})):
        answer = server.client().post("/v1/produce", {"topic": "delayed", "value": value, **given})
        assert answer.status == 200, answer
    rows = spark.read.format("driftq").option("url", url).option("subscribe", "delayed").load()
    first, second = rows.orderBy("offset").collect()
    assert (first.value, json.loads(first.envelope)) == ("waits", envelope)
    assert (second.value, second.envelope) == ("plain", None)


@pytest.mark.clause("Z2", "Z3", "Z6")
def test_a_query_that_dies_repeats_its_batch_to_the_row_and_goes_on(
    spark: SparkSession, sealing: ServerProcess, checkpoint: str
) -> None:
    create(sealing, "story.a", partitions=2, table=True)
    fill(sealing, "story.a", 700)
    rows = (
        spark.readStream.format("driftq")
        .option("url", f"http://127.0.0.1:{sealing.port}")
        .option("data", str(sealing.data))
        .option("subscribePattern", r"story\..*")
        .option("maxOffsetsPerTrigger", "300")
        .option("reader", "the-story")
        .load()
    )
    seen: Batches = []
    with pytest.raises(StreamingQueryException, match="the power is gone"):
        run_once(rows, checkpoint=checkpoint, into=seen, fail_at=1)
    assert [(number, len(found)) for number, found in seen] == [(0, 300), (1, 300)]

    # Meanwhile what was read over HTTP is sealed into files, more comes in, and another topic is made.
    folder = str(sealing.data / "tables" / "story.a")
    wait_until(lambda: read_table(folder) is not None, "the table")
    create(sealing, "story.b", partitions=1)
    fill(sealing, "story.b", 100, first=700)

    again: Batches = []
    query = run_once(rows, checkpoint=checkpoint, into=again)
    assert again[0] == seen[1], "a repeated batch has the same rows"
    every = [one for _, found in [seen[0], *again] for one in found]
    assert sorted(every, key=lambda one: int(one[1:])) == [f"e{number}" for number in range(800)]
    assert [messages_behind(progress) for progress in query.recentProgress][-1] == 0

    readers = sealing.client().get("/v1/topics/story.a").body["readers"]
    assert {one["reader"] for one in readers} == {"the-story"}
    assert sum(one["lag"] for one in readers) <= len(again[-1][1]), "the last batch is told at the next start"

    # The files are Parquet as any other: Spark's own reader takes them as they are.
    native = spark.read.parquet(*table_files(folder)).drop("headers")  # Ours has them if it is asked to.
    assert native.schema == rows.schema
    ours = spark.read.format("driftq").option("url", f"http://127.0.0.1:{sealing.port}")
    whole = ours.option("data", str(sealing.data)).option("subscribe", "story.a").load()
    assert native.exceptAll(whole).count() == 0
    assert 0 < native.count() <= whole.count() == 700

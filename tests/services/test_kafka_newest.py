"""What Kafka can do to a topic between the plan of a batch and its read: it must be seen, never skipped."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from driftq.errors import KafkaOffsetGone, TopicAppeared
from driftq.kafka.cluster import KafkaCluster
from driftq.kafka.producing import TransactionalProducer
from driftq.model.options.kafka import KafkaOptions
from driftq.pipeline import Projection
from driftq.pipeline.projection.projector import Projector
from driftq.pipeline.source.kafka.options import KafkaSourceOptions
from driftq.pipeline.source.kafka.reading import KafkaRange
from driftq.pipeline.source.kafka.stream import KafkaStreamReader
from driftq.pipeline.source.offsets import Offsets
from driftq.pipeline.spark.compat import ReadMaxRows
from driftq.pipeline.transport import TopicSubscription
from driftq.sinks import ParquetSink, ReadModelSink, SqliteSink
from tests.services.kafka_publishing import EventSource
from tests.services.transport.stage import KafkaStage
from tests.services_kafka import kafka
from tests.spark.events import event, expected, found, history

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.clause("Z4", "V10"), pytest.mark.timeout(600)]
__all__ = ["kafka"]


@pytest.fixture
def stage(spark: SparkSession, kafka: KafkaOptions, source: EventSource) -> KafkaStage:
    made = KafkaStage(source.options(kafka), spark, f"orders-{uuid.uuid4().hex[:8]}")
    made.create()
    return made


@pytest.fixture
def reader(stage: KafkaStage, kafka: KafkaOptions) -> Iterator[KafkaStreamReader]:
    """Of the topic as it is now; it reads at most 10 offsets at once."""
    with KafkaCluster(kafka) as cluster:
        identities = cluster.identities([stage.topic])
    opened = KafkaStreamReader(
        KafkaSourceOptions(
            kafka=kafka,
            subscription=TopicSubscription(pattern=f"{stage.topic}.*"),
            identities=identities,
            starting={},
            messages_max=10,
            newest_by="aggregate_id",
        )
    )
    yield opened
    opened.stop()


def next_end(reader: KafkaStreamReader, start: Offsets) -> Offsets:
    return reader.latestOffset(start, ReadMaxRows(10))


def next_ranges(reader: KafkaStreamReader) -> list[KafkaRange]:
    """The plan of the first batch."""
    start = reader.initialOffset()
    return list(reader.partitions(start, next_end(reader, start)))


def rows(reader: KafkaStreamReader, planned: list[KafkaRange]) -> list[dict[str, Any]]:
    return [row for one in planned for batch in reader.read(one) for row in batch.to_pylist()]


def forget(kafka: KafkaOptions, topic: str) -> None:
    """As retention does: the broker removes everything that the topic has."""
    with KafkaCluster(kafka) as cluster:
        ends = cluster.end_offsets([topic])
    admin = AdminClient({"bootstrap.servers": str(kafka.bootstrap)})
    removed = admin.delete_records([KafkaPartition(*place, end) for place, end in ends.items()])
    for done in removed.values():
        done.result()


def test_batches_end_at_their_limit_and_the_rest_is_told_as_lag(
    stage: KafkaStage, reader: KafkaStreamReader
) -> None:
    stage.send(history(5, 5))
    at, seen, lags = reader.initialOffset(), 0, []
    while (end := next_end(reader, at)) != at:
        planned = list(reader.partitions(at, end))
        assert sum(one.end - one.start for one in planned) <= 10
        seen += sum(one.end - one.start for one in planned)
        lags.append(reader.reportLatestOffset()["~behind"])
        at = end
    assert (seen, lags) == (25, [15, 5, 0])
    reader.prepareForTriggerAvailableNow()
    stage.send(history(1, 1))
    assert next_end(reader, at) == at, "a run that ends does not read what arrives meanwhile"


def test_messages_that_retention_removes_before_they_are_read_are_an_error(
    stage: KafkaStage, reader: KafkaStreamReader, kafka: KafkaOptions
) -> None:
    stage.send(history(5, 5))
    planned = next_ranges(reader)
    forget(kafka, stage.topic)
    stage.send(history(5, 5))
    for one in planned:
        with pytest.raises(KafkaOffsetGone) as told:
            rows(reader, [one])
        assert (told.value.partition, told.value.wanted) == (one.partition, 0)


def test_a_topic_that_is_created_again_and_has_grown_is_not_taken_for_the_same(
    stage: KafkaStage, reader: KafkaStreamReader
) -> None:
    """Its offsets look alike: nothing but the id tells it apart."""
    stage.send(history(5, 5))
    start = reader.initialOffset()
    planned = list(reader.partitions(start, next_end(reader, start)))
    stage.delete()
    stage.create()
    stage.send(history(20, 5))
    for one in planned:
        with pytest.raises(TopicAppeared):
            rows(reader, [one])
    with pytest.raises(TopicAppeared):
        next_end(reader, start)


def test_a_topic_that_the_query_does_not_know_ends_it(
    stage: KafkaStage, reader: KafkaStreamReader, kafka: KafkaOptions
) -> None:
    start = reader.initialOffset()
    assert next_end(reader, start) == start
    with KafkaCluster(kafka) as cluster:
        cluster.create_topic(f"{stage.topic}-more")
        with pytest.raises(TopicAppeared, match="more"):
            next_end(reader, start)
        cluster.delete_topic(f"{stage.topic}-more")


def test_a_topic_that_was_cut_back_is_an_error(stage: KafkaStage, reader: KafkaStreamReader) -> None:
    stage.send(history(5, 5))
    ahead = {stage.topic: {"0": 1_000, "1": 1_000}}
    with pytest.raises(KafkaOffsetGone) as told:
        next_end(reader, ahead)
    assert told.value.wanted == 1_000


def test_aborted_messages_and_the_marks_of_transactions_are_not_read(
    stage: KafkaStage, reader: KafkaStreamReader, kafka: KafkaOptions
) -> None:
    producer = TransactionalProducer(kafka, f"lane-{stage.topic}")
    for sequence, finish in enumerate((producer.abort, producer.commit, producer.abort, producer.commit)):
        producer.begin()
        said = event(sequence + 1, of="o-1")
        producer.send(stage.topic, json.dumps(said).encode(), "o-1", partition=0)
        producer.flush()
        finish()
    producer.begin()
    producer.send(stage.topic, json.dumps(event(9, of="o-1")).encode(), "o-1", partition=0)
    producer.flush()
    [planned] = next_ranges(reader)
    found_rows = rows(reader, [planned])
    assert planned.end == 8, "up to the open transaction"
    assert [row["sequence_number"] for row in found_rows] == [4]
    producer.abort()


@pytest.mark.parametrize("sink", [ParquetSink, SqliteSink])
def test_a_projection_starts_again_when_its_topic_is_replaced_under_a_batch(
    stage: KafkaStage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sink: Callable[[str], ReadModelSink]
) -> None:
    """Once by the tasks that write, once by those that gather: neither takes the new messages for the old."""
    stage.send(history(30, 3))
    more = history(60, 5)
    replaced: list[int] = []
    applied = Projector.__call__

    def replace_first(projector: Projector, batch: DataFrame, batch_id: int) -> None:
        if not replaced:
            replaced.append(batch_id)
            stage.delete()
            stage.create()
            stage.send(more)
        applied(projector, batch, batch_id)

    monkeypatch.setattr(Projector, "__call__", replace_first)
    target = sink(f"{tmp_path}/rows")
    Projection("orders", topic=stage.topic, sink=target).run(stage.spark, options=stage.options, once=True)
    model = target.connect("orders")
    with KafkaCluster(stage.options.kafka) as cluster:
        [identity] = cluster.identities([stage.topic]).values()
    assert found(model) == expected(more)
    assert {place.identity for place in model.positions()} == {identity}
    model.close()

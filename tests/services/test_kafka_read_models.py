"""Read models that tasks write, fed from Kafka: the transport is switched, the history is rebuilt."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient

from driftq.eventstore.published import PublishedEvent
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from driftq.pipeline import Projection, ordered
from driftq.sinks import ParquetSink, PostgresSink, ReadModelSink, SqliteSink
from tests.services.kafka_publishing import EventSource
from tests.services.transport.stage import DriftqStage, KafkaStage, TransportStage
from tests.services_kafka import kafka
from tests.services_postgres import postgres_database_url, postgres_url
from tests.spark.events import event, expected, found, history, mixed
from tests.spark.publishing import publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.timeout(900)]
__all__ = ["kafka", "postgres_database_url", "postgres_url"]


@pytest.fixture
def sinks(postgres_database_url: str, tmp_path: Path) -> list[ReadModelSink]:
    return [
        PostgresSink(postgres_database_url, schema=f"run_{uuid.uuid4().hex[:8]}"),
        ParquetSink(f"{tmp_path}/rows"),
    ]


def count(state: Any, event: PublishedEvent) -> Any:
    """How many events were applied, and which was the last."""
    return {"applied": 1 if state is None else state["applied"] + 1, "last": event.sequence_number}


@pytest.mark.clause("V10", "Z4")
def test_a_read_model_goes_on_when_its_topic_moves_to_kafka_and_back(
    spark: SparkSession, kafka: KafkaOptions, source: EventSource, sinks: list[ReadModelSink]
) -> None:
    """The offsets of one transport mean nothing on the other: neither skips what the other has passed."""
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    on_kafka = source.options(kafka)
    on_driftq = replace(on_kafka, transport="driftq")
    here, there = DriftqStage(on_driftq, spark, topic, source.server), KafkaStage(on_kafka, spark, topic)
    events = mixed(history(40, 6), seed=8)
    parts = [events[:100], events[100:110], events[110:]]
    projection = Projection("moving", topic=topic, sinks=sinks)
    stages: tuple[TransportStage, ...] = (here, there, here)
    for stage, part in zip(stages, parts, strict=True):
        if part is not parts[2]:
            stage.create()
        stage.send(part)
        projection.run(spark, options=stage.options, once=True)
    for sink in sinks:
        model = sink.connect("moving")
        assert found(model) == expected(events)
        assert {place.identity.split("/")[0] for place in model.positions()} == {"driftq", "kafka"}
        model.close()


@pytest.mark.clause("V1", "V10", "Z4")
def test_a_newest_message_that_cannot_be_read_is_the_same_dead_letter_in_every_target(
    spark: SparkSession, kafka: KafkaOptions, source: EventSource, sinks: list[ReadModelSink], tmp_path: Path
) -> None:
    """Tasks check bytes themselves where they write a target; for the others Spark has checked them."""
    there = KafkaStage(source.options(kafka), spark, f"orders-{uuid.uuid4().hex[:8]}")
    there.create()
    events = history(6, 3)
    there.send(events)
    produce_unreadable(kafka, there.topic)
    every = [*sinks, SqliteSink(f"{tmp_path}/rows.db")]
    projection = Projection("unread", topic=there.topic, sinks=every)
    projection.run(spark, options=there.options, once=True)
    with KafkaCluster(kafka) as cluster:
        ends = {place[1]: end - 1 for place, end in cluster.end_offsets([there.topic]).items()}
    letters: list[list[tuple[Any, ...]]] = []
    for sink in every:
        model = sink.connect("unread")
        assert found(model) == expected(events)
        assert {place.partition: offset for place, offset in model.positions().items()} == ends
        letters.append(
            sorted((dead.partition, dead.offset, str(dead.value)) for dead in model.dead_letters())
        )
        model.close()
    assert letters[0] == letters[1] == letters[2]
    assert sorted(value for _, _, value in letters[0]) == ["None", "not UTF-8, in base64: //4=", "{"]


def produce_unreadable(kafka: KafkaOptions, topic: str) -> None:
    """The newest message of three aggregates, the last of each partition, and one of them without a key."""
    producer = Producer({"bootstrap.servers": str(kafka.bootstrap)})
    for number, value in enumerate((b"\xff\xfe", b"{", None), start=1):
        said = event(4, of=f"o-{number}")
        names = ("event_id", "aggregate_type", "aggregate_id", "sequence_number")
        headers: list[tuple[str, str | bytes | None]] = [(name, str(said[name])) for name in names]
        key = None if value is None else said["aggregate_id"]
        producer.produce(topic, key=key, value=value, headers=headers, partition=number % 2)
    assert producer.flush(60) == 0


@pytest.mark.clause("V10", "V4", "Z4")
def test_a_rebuild_needs_nothing_of_kafka_that_its_retention_has_dropped(
    spark: SparkSession, kafka: KafkaOptions, source: EventSource, sinks: list[ReadModelSink]
) -> None:
    """Changes need every event: one that is left out, or applied twice, is seen in the state."""
    options = source.options(kafka)
    topic = source.topics[0]
    projection = Projection("counted", topic=topic, sinks=sinks, fold=ordered(count), batch_messages_max=70)
    source.append(200)
    publish(spark, options)
    projection.run(spark, options=options, once=True)
    forget(kafka, topic)
    projection.rebuild(options).run(spark, lambda _: None)
    assert applied(sinks) == [100, 100]
    source.append(60, first=201)
    publish(spark, options)
    projection.run(spark, options=options, once=True)
    assert applied(sinks) == [130, 130]


def applied(sinks: list[ReadModelSink]) -> list[int]:
    """How many events each read model has applied, each of them once and in order."""
    counts: list[int] = []
    for sink in sinks:
        model = sink.connect("counted")
        rows = list(model.rows())
        assert all(row.state["applied"] == row.state["last"] == row.sequence_number for row in rows)
        assert list(model.dead_letters()) == []
        counts.append(sum(row.state["applied"] for row in rows))
        model.close()
    return counts


def forget(kafka: KafkaOptions, topic: str) -> None:
    """As retention does: the broker removes everything that the topic has."""
    with KafkaCluster(kafka) as cluster:
        ends = cluster.end_offsets([topic])
    admin = AdminClient({"bootstrap.servers": str(kafka.bootstrap)})
    removed = admin.delete_records([KafkaPartition(*place, end) for place, end in ends.items()])
    for done in removed.values():
        done.result()

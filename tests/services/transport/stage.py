"""A transport with one topic: create it, fill it, and read it as the pipeline's jobs do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import Producer

import driftq
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.source.pinned import PinnedEnd
from driftq.pipeline.transport import COLUMNS, TopicSubscription, open_transport
from driftq.sinks import TopicPartition
from tests.harness import ServerProcess
from tests.spark.events import Event, create, send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 2
_HEADERS = ("event_id", "aggregate_type", "aggregate_id", "sequence_number")


class TransportStage(Protocol):
    options: PipelineOptions
    spark: SparkSession
    topic: str

    def create(self) -> None: ...

    def delete(self) -> None: ...

    def send(self, events: Iterable[Event | str]) -> None:
        """Each event under its aggregate's id; a text goes as it is."""


class DriftqStage:
    def __init__(
        self, options: PipelineOptions, spark: SparkSession, topic: str, server: ServerProcess
    ) -> None:
        self.options = options
        self.spark = spark
        self.topic = topic
        self._server = server

    def create(self) -> None:
        create(self._server, self.topic, partitions=PARTITIONS)

    def delete(self) -> None:
        with driftq.Client(f"http://127.0.0.1:{self._server.port}") as client:
            client.delete_topic(self.topic)

    def send(self, events: Iterable[Event | str]) -> None:
        send(self._server, self.topic, events)


class KafkaStage:
    def __init__(self, options: PipelineOptions, spark: SparkSession, topic: str) -> None:
        self.options = options
        self.spark = spark
        self.topic = topic

    def create(self) -> None:
        with KafkaCluster(self.options.kafka) as cluster:
            assert cluster.create_topic(self.topic, partitions=PARTITIONS)

    def delete(self) -> None:
        with KafkaCluster(self.options.kafka) as cluster:
            cluster.delete_topic(self.topic)
            while self.topic in cluster.topics():
                pass

    def send(self, events: Iterable[Event | str]) -> None:
        """Every other event has the publisher's headers; the others are as any producer sends them."""
        producer = Producer({"bootstrap.servers": str(self.options.kafka.bootstrap)})
        for number, each in enumerate(events):
            if isinstance(each, str):
                producer.produce(self.topic, value=each)
                continue
            headers: list[tuple[str, str | bytes | None]] = [(name, str(each[name])) for name in _HEADERS]
            key = each["aggregate_id"]
            producer.produce(
                self.topic, key=key, value=json.dumps(each), headers=headers if number % 2 else []
            )
        assert producer.flush(60) == 0


def read(
    stage: TransportStage, *, starting: Mapping[TopicPartition, int] | None = None, messages_max: int = 1_000
) -> list[list[dict[str, Any]]]:
    """What queries with AvailableNow read up to the end, by micro-batch, each in the order of its offsets."""
    batches: list[list[dict[str, Any]]] = []

    def keep(batch: DataFrame, _: int) -> None:
        rows = batch.select(*COLUMNS).orderBy("partition", "offset").collect()
        if rows:
            batches.append([row.asDict() for row in rows])

    messages = open_transport(stage.options).stream(
        stage.spark,
        TopicSubscription(topics=(stage.topic,)),
        reader="reader",
        starting=starting or {},
        messages_max=messages_max,
    )
    pinned = PinnedEnd()
    with TemporaryDirectory() as checkpoint:
        writing = messages.writeStream.option("checkpointLocation", checkpoint).foreachBatch(keep)
        while True:
            query = writing.trigger(availableNow=True).start()
            assert query.awaitTermination(240)
            if pinned.reached_by(query):
                return batches

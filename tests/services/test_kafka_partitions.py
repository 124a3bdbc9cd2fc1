"""Keys go to the partition that Kafka's Java client chooses: producers in both languages share a topic."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from driftq.kafka.cluster import KafkaCluster
from driftq.kafka.producing import TransactionalProducer
from driftq.model.options.kafka import KafkaOptions
from tests.services.kafka_publishing import messages
from tests.services_kafka import kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.clause("U4", "U7"), pytest.mark.timeout(600)]
__all__ = ["kafka"]

KEYS = [*(f"order-{number}" for number in range(300)), "Zoë", "注文", "a b", "x" * 200, "\N{SNOWMAN}/%"]


def java_partitions(spark: SparkSession, kafka: KafkaOptions, topic: str) -> dict[str, int]:
    """Each key sent by Kafka's own Java producer, which is in Spark's connector."""
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    properties = jvm.java.util.HashMap()
    properties.put("bootstrap.servers", kafka.bootstrap)
    properties.put("acks", "all")
    serializer = loader.loadClass("org.apache.kafka.common.serialization.StringSerializer")
    for part in ("key", "value"):
        properties.put(f"{part}.serializer", serializer)
    kind = loader.loadClass("org.apache.kafka.clients.producer.KafkaProducer")
    record = loader.loadClass("org.apache.kafka.clients.producer.ProducerRecord")
    text = jvm.java.lang.Class.forName("java.lang.Object")
    name = jvm.java.lang.Class.forName("java.lang.String")
    producer = _made(gateway, kind, [jvm.java.lang.Class.forName("java.util.Map")], [properties])
    try:
        sent = [producer.send(_made(gateway, record, [name, text, text], [topic, key, "v"])) for key in KEYS]
        return {key: one.get().partition() for key, one in zip(KEYS, sent, strict=True)}
    finally:
        producer.close()


def _made(gateway: Any, kind: Any, types: list[Any], values: list[Any]) -> Any:
    """A new object of a class that only Spark's own class loader knows."""
    classes = _array(gateway, gateway.jvm.java.lang.Class, types)
    return kind.getConstructor(classes).newInstance(_array(gateway, gateway.jvm.java.lang.Object, values))


def _array(gateway: Any, kind: Any, values: list[Any]) -> Any:
    made = gateway.new_array(kind, len(values))
    for number, value in enumerate(values):
        made[number] = value
    return made


def test_a_key_goes_to_the_partition_that_the_java_client_chooses(
    spark: SparkSession, kafka: KafkaOptions
) -> None:
    topic = f"partitions-{uuid.uuid4().hex}"
    with KafkaCluster(kafka) as cluster:
        cluster.create_topic(topic, partitions=7)
    expected = java_partitions(spark, kafka, topic)
    producer = TransactionalProducer(kafka, f"partitions-{topic}")
    producer.begin()
    for key in KEYS:
        producer.send(topic, b"ours", key)
    producer.commit()
    found = {
        (one.key or b"").decode(): one.partition for one in messages(kafka, [topic]) if one.value == b"ours"
    }
    assert found == expected
    assert len(set(found.values())) == 7, "the keys are in every partition"

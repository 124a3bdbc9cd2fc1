"""Kafka's topics as the transport, read by Spark's own Kafka source.

A topic that is deleted and created again begins at offset 0, so an identity is looked up before the query
that reads the topic starts. A topic that appears later ends the query, and the next one knows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from driftq.errors import TopicAppeared
from driftq.kafka.cluster import KafkaCluster
from driftq.kafka.java_options import spark_options
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.pipeline import KAFKA, PipelineOptions
from driftq.pipeline.spark.equipped import require_kafka_source
from driftq.pipeline.transport.port import TopicSubscription
from driftq.pipeline.transport.resume import by_topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from driftq.sinks import TopicPartition

_CHECK_S = 10.0
_EARLIEST = -2
"""Kafka's number for the oldest offset of a partition."""
_FETCH = {"kafka.max.partition.fetch.bytes": str(8 << 20), "kafka.max.poll.records": "10000"}
"""A task reads one partition: with Kafka's own 1 MiB and 500 records it asks, and is answered, too often."""


class KafkaTransport:
    """The topics of one Kafka cluster."""

    name = KAFKA

    def waits(self, subscription: TopicSubscription) -> bool:
        return False  # Spark's own source answers at once.

    def __init__(self, options: PipelineOptions) -> None:
        self._options = options.kafka

    def check(self) -> None:
        with KafkaCluster(self._options, answer_s=_CHECK_S) as cluster:
            cluster.cluster_id()

    def identities(self, subscription: TopicSubscription) -> dict[str, str]:
        with KafkaCluster(self._options) as cluster:
            return cluster.identities(name for name in cluster.topics() if subscription.matches(name))

    def late_identity(self, topic: str) -> str:
        raise TopicAppeared(topic)

    def stream(
        self,
        spark: SparkSession,
        subscription: TopicSubscription,
        *,
        reader: str,
        starting: Mapping[TopicPartition, int],
        messages_max: int,
        newest_by: str | None = None,
        identities: Mapping[str, str] | None = None,
    ) -> DataFrame:
        from driftq.pipeline.source.kafka.format import newest_stream
        from driftq.pipeline.source.kafka.options import KafkaSourceOptions
        from driftq.pipeline.transport.kafka_rows import as_messages

        if newest_by is not None:
            known = self.identities(subscription) if identities is None else dict(identities)
            options = KafkaSourceOptions(
                kafka=self._options,
                subscription=subscription,
                identities=known,
                starting=by_topic(starting),
                messages_max=messages_max,
                newest_by=newest_by,
            )
            return newest_stream(spark, options)
        return as_messages(
            self.raw_stream(spark, subscription, reader=reader, starting=starting, messages_max=messages_max)
        )

    def raw_stream(
        self,
        spark: SparkSession,
        subscription: TopicSubscription,
        *,
        reader: str,
        starting: Mapping[TopicPartition, int],
        messages_max: int,
    ) -> DataFrame:
        """The same rows as Spark's Kafka source has them, with bytes and headers."""
        require_kafka_source(spark)
        with KafkaCluster(self._options) as cluster:
            partitions = {
                name: count for name, count in cluster.topics().items() if subscription.matches(name)
            }
        options = source_options(self._options) | {
            "subscribePattern": java_pattern(subscription),
            "startingOffsets": offsets_of_all(partitions, starting),
            "maxOffsetsPerTrigger": str(messages_max),
            "groupIdPrefix": reader,
        }
        return spark.readStream.format("kafka").options(**options).load()

    def close(self) -> None:
        """Nothing stays open."""


def source_options(options: KafkaOptions) -> dict[str, str]:
    """Of Spark's Kafka source, for a stream or a batch: where the servers are, and what a row holds."""
    fixed = {"kafka.isolation.level": "read_committed", "includeHeaders": "true"}
    return _FETCH | spark_options(options) | fixed


def java_pattern(subscription: TopicSubscription) -> str:
    """A pattern, for names too: a query that names a topic which does not exist yet waits for it.

    Spark takes a topic whose name only contains a match, as `dlq.orders` contains `orders`, if it is not told
    where names begin and end.
    """
    if subscription.pattern is not None:
        return subscription.regex
    names = "|".join(rf"\Q{name}\E" for name in subscription.topics)
    return f"^(?:{names})$"


def offsets_of_all(partitions: Mapping[str, int], starting: Mapping[TopicPartition, int]) -> str:
    """`startingOffsets` for the Kafka source, which wants every partition of every topic in it, or a word."""
    known = {(place.topic, place.partition): offset for place, offset in starting.items()}
    spelled = {
        topic: {str(number): known.get((topic, number), _EARLIEST) for number in range(count)}
        for topic, count in partitions.items()
    }
    return msgspec.json.encode(spelled).decode() if spelled else "earliest"

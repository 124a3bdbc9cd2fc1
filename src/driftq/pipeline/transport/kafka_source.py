"""The Spark format that reads Kafka for projections and workers, with Kafka's client in Spark's Python tasks.

Spark's own source hands each message with its headers through Java: four to five seconds of processor time a
million. These readers make columns at once, and leave out what a newer message of the same task supersedes
before it crosses into Spark.

Each query registers a format of its own class, so that logins are in its pickle and not among the options of
the query, which Spark shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from driftq.kafka.reading import PartitionReader
from driftq.model.options.kafka import KafkaOptions
from driftq.model.wire.topics import SpanReply
from driftq.pipeline.source.lag import without_notes
from driftq.pipeline.source.newest import newest_only
from driftq.pipeline.source.offsets import Offsets
from driftq.pipeline.source.options import TopicSourceOptions
from driftq.pipeline.source.ranges import TopicRange
from driftq.pipeline.source.topic_readers import TopicStreamReader
from driftq.pipeline.spark.compat import fitted, register_format
from driftq.pipeline.spark.unpacking import SaysWhatIsMissing
from driftq.pipeline.transport.kafka_spans import KafkaSpans
from driftq.pipeline.transport.port import TopicSubscription

if TYPE_CHECKING:
    import pyarrow as arrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from driftq.sinks import TopicPartition

PIECE_OFFSETS = 500_000
"""The most offsets that one task reads."""


class KafkaStreamReader(TopicStreamReader):
    """The new messages since the last batch, up to the limit of one batch."""

    def __init__(
        self, options: TopicSourceOptions, kafka: KafkaOptions, subscription: TopicSubscription
    ) -> None:
        self._spans_of_all = KafkaSpans(kafka, subscription)
        super().__init__(options, topics=self._spans_of_all)
        self._kafka = kafka

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[TopicRange]:
        """Ranges that one task reads each. Raises KafkaMessagesExpired."""
        start, end = without_notes(start), without_notes(end)
        self._spans_of_all.refresh()
        return [
            TopicRange(topic, int(number), first, min(first + PIECE_OFFSETS, upto))
            for topic, partitions in end.items()
            for number, upto in partitions.items()
            for first in range(self._first(topic, number, start, upto), upto, PIECE_OFFSETS)
        ]

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        if not isinstance(partition, TopicRange):
            return iter(())  # Spark asks for one empty partition where there is nothing to read.
        rows = _read(self._kafka, partition)
        by = self._options.newest_by
        return rows if by is None else newest_only(rows, by=by)

    def _waiting(self, start: Offsets) -> dict[tuple[str, str], SpanReply]:
        self._spans_of_all.refresh()
        return super()._waiting(start)

    def _first(self, topic: str, number: str, start: Offsets, upto: int) -> int:
        known = start.get(topic, {}).get(number)
        if known == upto:
            return upto
        (span,) = self._topics.spans(topic, [{"partition": int(number), "from": known or 0}]).spans
        return span.first_offset if known is None else self._topics.checked(topic, span, next_offset=0)


class KafkaReader(SaysWhatIsMissing, DataSourceReader):
    """The messages before known ends, from the first of each partition on."""

    def __init__(self, kafka: KafkaOptions, ends: Mapping[tuple[str, int], int]) -> None:
        self._kafka = kafka
        self._ends = dict(ends)

    def partitions(self) -> list[TopicRange]:
        return [
            TopicRange(topic, number, first, min(first + PIECE_OFFSETS, end))
            for (topic, number), end in self._ends.items()
            for first in range(0, end, PIECE_OFFSETS)
        ]

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return _read(self._kafka, partition) if isinstance(partition, TopicRange) else iter(())


class KafkaFormat(DataSource):
    """What the format of one query is made of."""

    named: ClassVar[str]
    kafka: ClassVar[KafkaOptions]
    subscription: ClassVar[TopicSubscription]
    reading: ClassVar[TopicSourceOptions]
    ends: ClassVar[Mapping[tuple[str, int], int]]
    """Of a query that is no stream."""

    @classmethod
    def name(cls) -> str:
        return cls.named

    def schema(self) -> StructType:
        from pyspark.sql.pandas.types import from_arrow_schema

        from driftq.pipeline.transport.kafka_columns import SCHEMA

        return from_arrow_schema(SCHEMA)

    def reader(self, schema: StructType) -> DataSourceReader:
        return KafkaReader(self.kafka, self.ends)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return fitted(KafkaStreamReader(self.reading, self.kafka, self.subscription))


def register_kafka(
    spark: SparkSession,
    kafka: KafkaOptions,
    subscription: TopicSubscription,
    *,
    starting: Mapping[TopicPartition, int],
    messages_max: int,
    newest_by: str | None,
) -> str:
    """Register the format of a query with its session; returns its name."""
    offsets: Offsets = {}
    for place, offset in starting.items():
        offsets.setdefault(place.topic, {})[str(place.partition)] = offset
    reading = TopicSourceOptions(
        url="",
        data="",
        topics=subscription.topics,
        pattern=subscription.pattern,
        starting=offsets or "earliest",
        messages_max=messages_max,
        newest_by=newest_by,
    )
    return _register(spark, kafka, {"subscription": subscription, "reading": reading})


def read_kafka(spark: SparkSession, kafka: KafkaOptions, ends: Mapping[tuple[str, int], int]) -> DataFrame:
    """The messages of these partitions up to, without, their ends."""
    return spark.read.format(_register(spark, kafka, {"ends": dict(ends)})).load()


def _register(spark: SparkSession, kafka: KafkaOptions, parts: dict[str, Any]) -> str:
    asked = repr((kafka.bootstrap, kafka.options, parts))
    name = f"driftq-kafka-{hashlib.sha256(asked.encode()).hexdigest()[:16]}"
    register_format(
        spark, type("QueriedKafkaFormat", (KafkaFormat,), {"named": name, "kafka": kafka, **parts})
    )
    return name


def _read(kafka: KafkaOptions, wanted: TopicRange) -> Iterator[arrow.RecordBatch]:
    from driftq.pipeline.transport.kafka_columns import to_rows

    reader = PartitionReader(kafka)
    try:
        for messages in reader.read_together(
            wanted.topic, wanted.partition, start=wanted.start, end=wanted.end
        ):
            yield to_rows(wanted.topic, wanted.partition, messages)
    finally:
        reader.close()

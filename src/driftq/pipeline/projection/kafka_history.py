"""The history of Kafka's topics for a rebuild: from the event log, whose retention is not Kafka's.

The ends of the topics are noted first, and then the event log is read up to a later position. Whatever the
publisher had sent before the ends were noted is below that position, so nothing is left out. Events between
the two are applied twice, and the sequence guard ignores the second time.

A projection by key reads messages that are no events: those exist on Kafka alone, so that a rebuild needs
topics that still have their first messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.errors import MessagesGone
from driftq.eventstore.published import encode_published, topic_of
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.projection.rebuild import RebuildInput, RebuildPiece
from driftq.pipeline.source.event_options import EventLogOptions
from driftq.pipeline.source.events import EventLog
from driftq.pipeline.spark.equipped import require_kafka_source
from driftq.pipeline.transport.kafka_topics import KafkaTransport, java_pattern, source_options
from driftq.pipeline.transport.port import COLUMN_TYPES, TopicSubscription
from driftq.sinks import TopicPartition

if TYPE_CHECKING:
    import pyarrow as arrow
    from pyspark.sql import DataFrame, SparkSession

    from driftq.pipeline.projection.definition import Projection

NO_PARTITION = -1
"""Of a message that was made from the event log: its offset is its position there."""
_topic = cache(topic_of)


def kafka_history(projection: Projection, options: PipelineOptions) -> RebuildInput:
    """Raises MessagesGone where messages by key were removed from Kafka."""
    identities = KafkaTransport(options).identities(projection.subscription)
    with KafkaCluster(options.kafka) as cluster:
        ends = cluster.end_offsets(identities)
        begins = cluster.beginning_offsets(identities)
    positions = {
        TopicPartition(topic, number, identities[topic]): end - 1
        for (topic, number), end in ends.items()
        if end
    }
    if projection.key == "key":
        return RebuildInput(positions, [_whole_topics(projection, options.kafka, begins, ends)])
    log = EventLogOptions(
        url=options.url,
        data=options.data,
        credentials=options.credentials,
        objects_url=options.events.objects_url,
        s3_endpoint=options.events.s3_endpoint,
    )
    reader = EventLog(log)
    try:
        end = reader.next_position()
    finally:
        reader.close()
    step = projection.batch_max
    pieces = [
        RebuildPiece(
            min(step, end - first),
            partial(
                _read_log,
                options=log,
                subscription=projection.subscription,
                first=first,
                last=min(first + step, end) - 1,
            ),
        )
        for first in range(1, end, step)
    ]
    return RebuildInput(positions, pieces)


def _read_log(
    spark: SparkSession, *, options: EventLogOptions, subscription: TopicSubscription, first: int, last: int
) -> DataFrame:
    """Events of the log as the messages that the publisher makes of them."""
    reading = (
        spark.read.format("driftq-events")
        .option("url", options.url)
        .option("data", options.data)
        .option("startingPosition", first)
        .option("endingPosition", last)
    )
    if options.objects_url is not None:
        reading = reading.option("objectsUrl", options.objects_url)
    if options.s3_endpoint is not None:
        reading = reading.option("s3Endpoint", options.s3_endpoint)
    task: Any = _AsMessages(subscription)
    return reading.load().mapInArrow(task, COLUMN_TYPES)


@dataclass(frozen=True, slots=True)
class _AsMessages:
    """For `mapInArrow`: rows of the event log in, messages of the subscribed topics out."""

    subscription: TopicSubscription

    def __call__(self, batches: Iterable[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
        import pyarrow as arrow

        from driftq.eventstore.stored import stored_events

        for batch in batches:
            wanted = [
                event
                for event in stored_events(batch)
                if self.subscription.matches(_topic(event.aggregate_type))
            ]
            yield arrow.RecordBatch.from_pydict(
                {
                    "topic": [_topic(event.aggregate_type) for event in wanted],
                    "partition": arrow.array([NO_PARTITION] * len(wanted), arrow.int32()),
                    "offset": arrow.array([event.position for event in wanted], arrow.int64()),
                    "timestamp": arrow.array(
                        [event.occurred_at_us for event in wanted], arrow.timestamp("us", tz="UTC")
                    ),
                    "key": [event.aggregate_id for event in wanted],
                    "value": [encode_published(event) for event in wanted],
                    "event_id": [event.event_id for event in wanted],
                    "aggregate_type": [event.aggregate_type for event in wanted],
                    "aggregate_id": [event.aggregate_id for event in wanted],
                    "sequence_number": arrow.array(
                        [event.sequence_number for event in wanted], arrow.int64()
                    ),
                }
            )


def _whole_topics(
    projection: Projection,
    options: KafkaOptions,
    begins: dict[tuple[str, int], int],
    ends: dict[tuple[str, int], int],
) -> RebuildPiece:
    for (topic, _), oldest in begins.items():
        if oldest:
            raise MessagesGone(topic, oldest=oldest, projection=projection.name)
    read = partial(_read_topics, options=options, subscription=projection.subscription, ends=ends)
    return RebuildPiece(sum(ends.values()), read)


def _read_topics(
    spark: SparkSession,
    *,
    options: KafkaOptions,
    subscription: TopicSubscription,
    ends: dict[tuple[str, int], int],
) -> DataFrame:
    from driftq.pipeline.transport.kafka_rows import as_messages

    require_kafka_source(spark)
    upto: dict[str, dict[str, int]] = {}
    for (topic, number), end in ends.items():
        upto.setdefault(topic, {})[str(number)] = end
    wanted = source_options(options) | {
        "subscribePattern": java_pattern(subscription),
        "startingOffsets": "earliest",
        "endingOffsets": msgspec.json.encode(upto).decode(),
    }
    return as_messages(spark.read.format("kafka").options(**wanted).load())

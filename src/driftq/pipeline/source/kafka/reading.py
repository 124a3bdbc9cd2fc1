"""One task's part of a Kafka topic: a range of offsets of one partition, folded while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import InputPartition

from driftq.errors import KafkaOffsetGone, KafkaTopicNotFound, KafkaUnavailable, TopicAppeared
from driftq.kafka.cluster import KafkaCluster
from driftq.kafka.reading import PartitionReader
from driftq.model.options.kafka import KafkaOptions
from driftq.pipeline.source.kafka.options import KafkaSourceOptions
from driftq.pipeline.spark.garbage import collecting_nothing

if TYPE_CHECKING:
    import pyarrow as arrow


@dataclass
class KafkaRange(InputPartition):
    """Offsets of one partition for one task: from `start` up to, without, `end`."""

    topic: str
    partition: int
    start: int
    end: int
    identity: str


def read_range(options: KafkaSourceOptions, wanted: Any) -> Iterator[arrow.RecordBatch]:
    """The newest messages of the range.

    Raises KafkaOffsetGone when some were removed since the range was planned, and TopicAppeared when they
    are of another topic: ids are never used again, so the topic that has the id after the read had it before.
    """
    if not isinstance(wanted, KafkaRange):
        return  # Spark asks for one empty partition where there is nothing to read.
    from driftq.pipeline.source.kafka.newest import newest_rows  # Planning needs nothing of it.

    reader = PartitionReader(options.kafka, strict=True)
    try:
        lists = reader.read_lists(wanted.topic, wanted.partition, start=wanted.start, end=wanted.end)
        with collecting_nothing():
            yield from newest_rows(lists, by=options.newest_by)
    except (KafkaOffsetGone, KafkaTopicNotFound, KafkaUnavailable):
        _require_same(options.kafka, wanted)  # The better reason, if it is that.
        raise
    finally:
        reader.close()
    _require_same(options.kafka, wanted)


def _require_same(options: KafkaOptions, wanted: KafkaRange) -> None:
    with KafkaCluster(options) as cluster:
        if cluster.identities([wanted.topic]) != {wanted.topic: wanted.identity}:
            raise TopicAppeared(wanted.topic)

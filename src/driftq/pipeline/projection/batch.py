"""A micro-batch as the driver gathers it, for targets that tasks cannot write: the newest of each aggregate.

Every action reads the batch again from the source, so there is one: the newest message of each aggregate and
the last offset of each partition come from the same grouping. A message without the columns of an event is a
group of its own, so that it is not lost. The tasks of `latest_state` leave out superseded messages, so few
rows remain to be grouped; of an aggregate whose newest message cannot be read they leave out nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as f

from driftq.model import Aggregate
from driftq.pipeline.projection.folds import BatchMessage
from driftq.sinks import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EVENT = ("event_id", "aggregate_type", "aggregate_id", "sequence_number")
_PLACE = ("topic", "partition", "offset")
_KEY = ["aggregate_type", "aggregate_id", "sequence_number"]
PLACE_AND_EVENT = (*_PLACE, *_EVENT)


@dataclass(frozen=True, slots=True)
class BatchMessages:
    """Messages at the driver, and the last offset of each partition of the batch."""

    arrived: list[BatchMessage]
    positions: dict[TopicPartition, int]


def read_newest(batch: DataFrame, *, keyed: bool) -> BatchMessages:
    """The newest message of each aggregate in each partition, and every message that is no event.

    The offset of a result is the last one of its aggregate and may be that of a late older event; the event's
    id is only in its value. Use `read_aggregates` where both matter.
    """
    messages = _by_key(batch) if keyed else batch
    stray = f.when(~is_event(keyed=keyed), f.col("offset")).alias("stray")
    # The most selective column comes first: Spark sorts by them.
    newest = messages.groupBy("aggregate_id", "aggregate_type", "partition", "topic", stray).agg(
        f.max("offset").alias("offset"),
        f.max("sequence_number").alias("sequence_number"),
        f.max_by("value", f.coalesce("sequence_number", f.lit(0))).alias("value"),
    )
    named = newest.withColumn("event_id", f.when(f.col("stray").isNull(), f.lit("")))
    arrived = list(_arrived(named))
    return BatchMessages(arrived, _furthest((each.topic, each.partition, each.offset) for each in arrived))


def read_all(batch: DataFrame) -> BatchMessages:
    """Every message."""
    arrived = list(_arrived(batch))
    return BatchMessages(arrived, _furthest((each.topic, each.partition, each.offset) for each in arrived))


def read_aggregates(batch: DataFrame, aggregates: Sequence[Aggregate], *, keyed: bool) -> list[BatchMessage]:
    """Every message of these aggregates."""
    messages = _by_key(batch) if keyed else batch
    wanted = {tuple(aggregate) for aggregate in aggregates}
    ids = sorted({aggregate.id for aggregate in aggregates})
    found = _arrived(messages.where(f.col("aggregate_id").isin(ids)))
    return [each for each in found if (each.aggregate_type, each.aggregate_id) in wanted]


def read_events(
    batch: DataFrame, wanted: Iterable[tuple[str, str, int]], *, keyed: bool
) -> dict[tuple[str, str, int], BatchMessage]:
    """The messages of these aggregates with these sequences, one of each."""
    messages = _by_key(batch) if keyed else batch
    keys = set(wanted)
    ids, sequences = sorted({key[1] for key in keys}), sorted({key[2] for key in keys})
    near = f.col("aggregate_id").isin(ids) & f.col("sequence_number").isin(sequences)
    named = {message[4:7]: message for message in _arrived(messages.where(near).dropDuplicates(_KEY))}
    return {key: named[key] for key in keys & set(named)}


def read_non_events(batch: DataFrame) -> BatchMessages:
    """Every message that is no event, and the last offset of each partition."""
    return BatchMessages(list(_arrived(batch.where(~is_event(keyed=False)))), read_ends(batch))


def read_ends(batch: DataFrame) -> dict[TopicPartition, int]:
    """The last offset of each partition."""
    ends = batch.groupBy("topic", "partition").agg(f.max("offset")).collect()
    return {TopicPartition(*row[:2]): row[2] for row in ends}


def events_of(batch: DataFrame) -> DataFrame:
    """The events of a batch for a user's fold; the payload is JSON."""
    said: list[Column] = [
        f.get_json_object("value", f"$.{name}").alias(name) for name in ("event_type", "operation", "payload")
    ]
    return batch.where(is_event(keyed=False)).select(*PLACE_AND_EVENT, *said, "timestamp")


def is_event(*, keyed: bool) -> Column:
    """Whether a message has the columns of an event; by key, any has what is needed."""
    if keyed:
        return f.lit(True)
    there = f.lit(True)
    for name in _EVENT:
        there &= f.col(name).isNotNull()
    return there


def _by_key(batch: DataFrame) -> DataFrame:
    """A message that is no event: its topic is its type, its key its id, its offset its sequence."""
    return batch.withColumns(
        {
            "aggregate_type": f.col("topic"),
            "aggregate_id": f.col("key"),
            "sequence_number": f.col("offset") + 1,
        }
    )


def _arrived(batch: DataFrame) -> Iterable[BatchMessage]:
    columns = [column.to_pylist() for column in batch.select(*PLACE_AND_EVENT, "value").toArrow().columns]
    return (BatchMessage(*row) for row in zip(*columns, strict=True))


def _furthest(offsets: Iterable[tuple[Any, Any, Any]]) -> dict[TopicPartition, int]:
    reached: dict[TopicPartition, int] = {}
    for topic, partition, offset in offsets:
        place = TopicPartition(topic, partition)
        reached[place] = max(offset, reached.get(place, -1))
    return reached

"""Kafka's topics as a stream of the newest messages: what each micro-batch reads, and what is left.

A topic that is deleted and created again has the same name, and may soon have the same offsets. So its
identity is compared with that of the query's start after each look at its end, and after each read. The first
difference ends the query, and the next one reads the new topic from its start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader

from driftq.errors import KafkaOffsetGone, TopicAppeared
from driftq.kafka.cluster import KafkaCluster
from driftq.pipeline.source.kafka.options import KafkaSourceOptions
from driftq.pipeline.source.kafka.reading import KafkaRange, read_range
from driftq.pipeline.source.lag import with_lag, without_notes
from driftq.pipeline.source.offsets import Offsets, allot
from driftq.pipeline.spark.compat import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from driftq.pipeline.spark.unpacking import SaysWhatIsMissing

if TYPE_CHECKING:
    import pyarrow as arrow


class KafkaStreamReader(SaysWhatIsMissing, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The new messages since the last batch, up to the limit of one batch.

    Limit and lag count offsets: only a reader knows how many of them have a message.
    """

    def __init__(self, options: KafkaSourceOptions) -> None:
        self._options = options
        self._opened: KafkaCluster | None = None
        self._target: Offsets | None = None
        """Where a query with AvailableNow ends."""
        self._end: Offsets = {}
        self._newest: Offsets = {}
        self._read = 0

    def initialOffset(self) -> Offsets:
        return self._first_of(self._options.identities)

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.messages_max)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._ends()

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        ends = self._ends() if self._target is None else self._target
        begin = self._begin(without_notes(start), ends)
        waiting = dict(_waiting(begin, ends))
        counts = allot(waiting, limit.max_rows) if isinstance(limit, ReadMaxRows) else waiting
        self._end = {topic: dict(partitions) for topic, partitions in begin.items()}
        for (topic, number), count in counts.items():
            self._end[topic][number] += count
        self._newest = {topic: begin[topic] | ends.get(topic, {}) for topic in begin}
        self._read = sum(counts.values())
        return self._end if self._read else start

    def reportLatestOffset(self) -> dict[str, Any]:
        behind = sum(
            end - self._end[topic][number]
            for topic, partitions in self._newest.items()
            for number, end in partitions.items()
        )
        return with_lag(self._end, behind, read=self._read)

    def newest_offsets(self) -> Offsets:
        return self._newest

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[KafkaRange]:
        start, end = without_notes(start), without_notes(end)
        begin = self._begin(start, end)
        return [
            KafkaRange(topic, int(number), begin[topic][number], upto, self._options.identities[topic])
            for topic, partitions in end.items()
            for number, upto in partitions.items()
            if begin[topic][number] < upto
        ]

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return read_range(self._options, partition)

    def commit(self, end: Offsets) -> None:
        """Kafka keeps no position of this reader: the target of the query does."""

    def stop(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def _cluster(self) -> KafkaCluster:
        if self._opened is None:
            self._opened = KafkaCluster(self._options.kafka)
        return self._opened

    def _ends(self) -> Offsets:
        """The ends of the topics that exist. Raises TopicAppeared for one that the query does not know."""
        names = [name for name in self._cluster.topics() if self._options.subscription.matches(name)]
        ends = _by_topic(self._cluster.end_offsets(names))
        for topic, identity in self._cluster.identities(names).items():
            if self._options.identities.get(topic) != identity:
                raise TopicAppeared(topic)
        return ends

    def _begin(self, start: Offsets, ends: Offsets) -> Offsets:
        """Where each partition goes on; one that is new to the query goes on with its oldest message."""
        fresh = [
            topic for topic, partitions in ends.items() if partitions.keys() - start.get(topic, {}).keys()
        ]
        first = self._first_of(fresh) if fresh else {}
        return {topic: first.get(topic, {}) | start.get(topic, {}) for topic in {**start, **first}}

    def _first_of(self, topics: Iterable[str]) -> Offsets:
        oldest = _by_topic(self._cluster.beginning_offsets(topics))
        starting = self._options.starting
        return {topic: partitions | starting.get(topic, {}) for topic, partitions in oldest.items()}


def _waiting(begin: Offsets, ends: Offsets) -> Iterator[tuple[tuple[str, str], int]]:
    """How many offsets are left in each partition. Raises KafkaOffsetGone where one ends before its begin."""
    for topic, partitions in ends.items():
        for number, end in partitions.items():
            if end < begin[topic][number]:
                raise KafkaOffsetGone(topic, partition=int(number), wanted=begin[topic][number])
            yield (topic, number), end - begin[topic][number]


def _by_topic(offsets: dict[tuple[str, int], int]) -> Offsets:
    found: Offsets = {}
    for (topic, number), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(number)] = offset
    return found

"""Topics as Spark reads them: all at once, or as a stream that can be stopped and repeated anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from driftq.errors import TopicNotFound
from driftq.model.wire.topics import SpanReply
from driftq.pipeline.source.lag import with_lag
from driftq.pipeline.source.offsets import Offsets, allot, resolve
from driftq.pipeline.source.options import TopicSourceOptions
from driftq.pipeline.source.ranges import TopicRange, plan
from driftq.pipeline.source.reading import read_range
from driftq.pipeline.source.topics import Topics

if TYPE_CHECKING:
    import pyarrow as arrow


class TopicReader(DataSourceReader):
    """The messages that exist when the query is planned."""

    def __init__(self, options: TopicSourceOptions) -> None:
        self._options = options

    def partitions(self) -> list[TopicRange]:
        topics = Topics(self._options)
        bounds = topics.bounds(strict=True)
        start = resolve(self._options.starting, bounds, option="startingOffsets")
        end = resolve(self._options.ending, bounds, option="endingOffsets")
        ends = {
            topic: {number: max(start[topic][number], offset) for number, offset in partitions.items()}
            for topic, partitions in end.items()
        }
        try:
            return plan(topics, start, ends, data=self._options.data)
        finally:
            topics.close()

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return read_range(self._options, partition)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The new messages since the last batch, up to the limit of one batch."""

    def __init__(self, options: TopicSourceOptions) -> None:
        self._options = options
        self._topics = Topics(options)
        self._target: Offsets | None = None
        """Where a query with AvailableNow ends."""
        self._reported = False
        self._end: Offsets = {}
        self._lag = 0
        self._read = 0

    def initialOffset(self) -> Offsets:
        return resolve(self._options.starting, self._topics.bounds(strict=False), option="startingOffsets")

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.messages_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        bounds = self._topics.bounds(strict=False)
        self._target = resolve("latest", bounds, option="endingOffsets")

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        if not self._reported:
            self._topics.report(start)  # From the start no message is removed before this query has read it.
            self._reported = True
        waiting = self._waiting(start)
        counts = {key: span.messages for key, span in waiting.items()}
        if isinstance(limit, ReadMaxRows):
            counts = allot(counts, limit.max_rows)
        end = {topic: dict(partitions) for topic, partitions in start.items()}
        for topic in self._topics_of(counts):
            end.setdefault(topic, {}).update(self._ends(topic, waiting, counts))
        self._end = end
        self._read = sum(counts.values())
        self._lag = sum(span.behind for span in waiting.values()) - self._read
        return end

    def reportLatestOffset(self) -> dict[str, Any]:
        return with_lag(self._end, self._lag, read=None if self._options.newest_by is None else self._read)

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[TopicRange]:
        return plan(self._topics, start, end, data=self._options.data)

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return read_range(self._options, partition)

    def commit(self, end: Offsets) -> None:
        self._topics.report(end)

    def stop(self) -> None:
        self._topics.close()

    def _waiting(self, start: Offsets) -> dict[tuple[str, str], SpanReply]:
        """The messages after these offsets, in every partition."""
        found: dict[tuple[str, str], SpanReply] = {}
        topics = self._topics.names() if self._target is None else list(self._target)
        for topic in topics:
            try:
                for span in self._spans(topic, start.get(topic, {})):
                    found[topic, str(span.partition)] = span
            except TopicNotFound:
                continue  # Not created yet, or deleted: there is nothing to wait for.
        return found

    def _spans(self, topic: str, start_offsets: dict[str, int]) -> Iterator[SpanReply]:
        numbers = sorted(start_offsets, key=int)
        answer = self._topics.spans(
            topic, [self._span_query(topic, int(number), start_offsets[number]) for number in numbers]
        )
        for span in answer.spans:
            begin = self._topics.checked(topic, span, next_offset=answer.next_offset)
            if begin == span.from_:
                yield span
            else:
                yield from self._topics.spans(topic, [self._span_query(topic, span.partition, begin)]).spans
        fresh = [number for number in range(answer.partitions) if str(number) not in start_offsets]
        if fresh:  # A topic or a partition that was created meanwhile is read from its first message.
            yield from self._topics.spans(
                topic, [self._span_query(topic, number, 0) for number in fresh]
            ).spans

    def _span_query(self, topic: str, partition: int, start: int) -> dict[str, int]:
        if self._target is None:
            return {"partition": partition, "from": start}
        upto = self._target[topic].get(str(partition), 0)
        return {"partition": partition, "from": start, "to": max(start, upto)}

    @staticmethod
    def _topics_of(counts: dict[tuple[str, str], int]) -> list[str]:
        """Topics with new messages, in the order of their requests."""
        return list(dict.fromkeys(topic for (topic, _), count in counts.items() if count))

    def _ends(
        self, topic: str, waiting: dict[tuple[str, str], SpanReply], counts: dict[tuple[str, str], int]
    ) -> dict[str, int]:
        """Where a batch of these counts ends in a topic; a partition with nothing new stays where it is."""
        mine = {
            number: span for (name, number), span in waiting.items() if name == topic and counts[name, number]
        }
        ends = {number: span.to for number, span in mine.items()}
        cut = [number for number, span in mine.items() if counts[topic, number] < span.messages]
        if cut:
            asked = [
                {"partition": int(number), "from": mine[number].from_, "limit": counts[topic, number]}
                for number in cut
            ]
            ends |= {str(span.partition): span.to for span in self._topics.spans(topic, asked).spans}
        return ends

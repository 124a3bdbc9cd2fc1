"""Topics as Spark reads them: all at once, or as a stream that can be stopped and repeated anywhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader

from driftq.errors import TopicNotFound
from driftq.model.wire.topics import SpanReply
from driftq.pipeline.source.filters import ColumnLimits, limits_of
from driftq.pipeline.source.lag import with_lag, without_notes
from driftq.pipeline.source.narrowing import narrowed
from driftq.pipeline.source.offsets import Bounds, Offsets, Times, allot, resolve
from driftq.pipeline.source.options import TopicSourceOptions
from driftq.pipeline.source.ranges import Cutting, TopicRange, plan
from driftq.pipeline.source.reading import read_range
from driftq.pipeline.source.times import ending_at, starting_at
from driftq.pipeline.source.topics import Topics
from driftq.pipeline.source.waits import MISSING_MS, Waits
from driftq.pipeline.spark.compat import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from driftq.pipeline.spark.unpacking import SaysWhatIsMissing

if TYPE_CHECKING:
    import pyarrow as arrow
    from pyspark.sql.datasource import Filter


class TopicReader(SaysWhatIsMissing, DataSourceReader):
    """The messages that exist when the query is planned."""

    def __init__(self, options: TopicSourceOptions) -> None:
        self._options = options
        self._limits = ColumnLimits()

    def partitions(self) -> list[TopicRange]:
        topics = Topics(self._options)
        try:
            bounds = topics.bounds(strict=True)
            start = _starting(topics, self._options, bounds)
            end = _ending(topics, self._options, bounds)
            start, end = narrowed(topics, start, end, self._limits)
            return plan(topics, start, end, data=self._options.data, cutting=_cutting(self._options))
        finally:
            topics.close()

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return read_range(self._options, partition)


class NarrowedTopicReader(TopicReader):
    """Of these messages, those that the query's filters leave; the option `pushDownPredicate` asks for it."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        """Take the filters as limits. All of them are returned: Spark applies them to the rows as well."""
        self._limits = limits_of(filters)
        return filters


class TopicStreamReader(SaysWhatIsMissing, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The new messages since the last batch, up to the limit of one batch."""

    def __init__(self, options: TopicSourceOptions, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._clock = clock
        self._topics = Topics(options)
        self._target: Offsets | None = None
        """Where a query with AvailableNow ends."""
        self._reported = False
        self._end: Offsets = {}
        self._newest: Offsets = {}
        self._lag = 0
        self._read = 0
        self._batch_at: float | None = None
        self._waits = Waits(options.wait_ms)

    def initialOffset(self) -> Offsets:
        return _starting(self._topics, self._options, self._topics.bounds(strict=False))

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
        begin = without_notes(start)
        waiting = self._waiting(begin)
        if self._can_wait(waiting) and (wait_ms := self._waits.next_ms()):
            waiting = self._wait(waiting, wait_ms=wait_ms)
        counts = {key: span.messages for key, span in waiting.items()}
        if self._too_few(sum(counts.values())):
            counts = dict.fromkeys(counts, 0)
        elif isinstance(limit, ReadMaxRows):
            counts = allot(counts, limit.max_rows)
        end = {topic: dict(partitions) for topic, partitions in begin.items()}
        for topic in self._topics_of(counts):
            end.setdefault(topic, {}).update(self._ends(topic, waiting, counts))
        self._end = end
        self._newest = _with_ends(begin, waiting)
        self._read = sum(counts.values())
        self._lag = sum(span.behind for span in waiting.values()) - self._read
        return end if self._read else start

    def reportLatestOffset(self) -> dict[str, Any]:
        return with_lag(self._end, self._lag, read=None if self._options.newest_by is None else self._read)

    def newest_offsets(self) -> Offsets:
        return self._newest

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[TopicRange]:
        start, end = without_notes(start), without_notes(end)
        return plan(self._topics, start, end, data=self._options.data, cutting=_cutting(self._options))

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return read_range(self._options, partition)

    def commit(self, end: Offsets) -> None:
        self._topics.report(end)

    def stop(self) -> None:
        self._topics.close()

    def _too_few(self, messages: int) -> bool:
        """Whether a batch waits for more messages. The first one does not, nor any of a run that ends."""
        now, least = self._clock(), self._options.messages_min
        if least is not None and self._target is None and self._batch_at is not None and messages < least:
            if now - self._batch_at < self._options.trigger_delay_ms / 1000:
                return True
        self._batch_at = now
        return False

    def _can_wait(self, waiting: Mapping[tuple[str, str], SpanReply]) -> bool:
        """Whether nothing is there, and one call to the server covers all that may come."""
        alone = len(self._options.topics) == 1
        return alone and self._target is None and not any(one.messages for one in waiting.values())

    def _wait(
        self, waiting: Mapping[tuple[str, str], SpanReply], *, wait_ms: int
    ) -> dict[tuple[str, str], SpanReply]:
        """The messages after the ends of these spans, as soon as there is one, or when the time is over."""
        if not waiting:
            time.sleep(min(wait_ms, MISSING_MS) / 1000)  # The server has no such topic to wait for.
        start: Offsets = {}
        for (topic, number), span in waiting.items():
            start.setdefault(topic, {})[number] = span.from_
        return self._waiting(start, wait_ms=wait_ms if waiting else 0)

    def _waiting(self, start: Offsets, *, wait_ms: int = 0) -> dict[tuple[str, str], SpanReply]:
        """The messages after these offsets, in every partition; with `wait_ms` it waits for the first."""
        found: dict[tuple[str, str], SpanReply] = {}
        topics = self._topics.names() if self._target is None else list(self._target)
        for topic in topics:
            try:
                for span in self._spans(topic, start.get(topic, {}), wait_ms=wait_ms):
                    found[topic, str(span.partition)] = span
            except TopicNotFound:
                continue  # Not created yet, or deleted: there is nothing to wait for.
        return found

    def _spans(self, topic: str, start_offsets: dict[str, int], *, wait_ms: int) -> Iterator[SpanReply]:
        numbers = sorted(start_offsets, key=int)
        answer = self._topics.spans(
            topic,
            [self._span_query(topic, int(number), start_offsets[number]) for number in numbers],
            wait_ms=wait_ms,
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


def _with_ends(start: Offsets, waiting: Mapping[tuple[str, str], SpanReply]) -> Offsets:
    """Where every partition ended when its messages were counted."""
    ends = {topic: dict(partitions) for topic, partitions in start.items()}
    for (topic, number), span in waiting.items():
        ends.setdefault(topic, {})[number] = span.to
    return ends


def _starting(
    topics: Topics, options: TopicSourceOptions, bounds: Mapping[str, Mapping[str, Bounds]]
) -> Offsets:
    if isinstance(options.starting, Times):
        return starting_at(topics, options.starting, bounds, unmatched=options.unmatched)
    return resolve(options.starting, bounds, option="startingOffsets")


def _ending(
    topics: Topics, options: TopicSourceOptions, bounds: Mapping[str, Mapping[str, Bounds]]
) -> Offsets:
    if isinstance(options.ending, Times):
        return ending_at(topics, options.ending, bounds)
    return resolve(options.ending, bounds, option="endingOffsets")


def _cutting(options: TopicSourceOptions) -> Cutting:
    return Cutting(options.partitions_min, options.records_max)

"""A set of topics as a Spark source, batch and streaming."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from driftq.errors import TopicNotFound
from driftq.model import TopicView
from driftq.pipeline.server import Server, topic_path
from driftq.pipeline.source.options import Offsets, TopicOptions
from driftq.pipeline.source.rows import fetch_rows

if TYPE_CHECKING:
    import pyarrow as arrow


@dataclass
class TopicRange(InputPartition):
    """Offsets of one partition for one task: from `start` up to, without, `end`."""

    topic: str
    partition: int
    start: int
    end: int


class Topics:
    """The topics of a query as they are on the server now."""

    def __init__(self, options: TopicOptions) -> None:
        self._options = options
        self._server = Server(options.url)

    def views(self, *, strict: bool) -> list[TopicView]:
        """A topic that is named and not there yet is left out, unless `strict`."""
        found = []
        for name in self._names():
            try:
                found.append(self._server.get(topic_path(name), TopicView))
            except TopicNotFound:
                if strict:
                    raise
        return found

    def _names(self) -> Sequence[str]:
        if self._options.pattern is None:
            return self._options.topics
        every = self._server.get("/v1/topics", dict[str, list[str]])["topics"]
        return [name for name in every if re.fullmatch(self._options.pattern, name)]


def plan(start: Offsets, end: Offsets) -> list[TopicRange]:
    return [
        TopicRange(topic, int(number), start.get(topic, {}).get(number, 0), upto)
        for topic, partitions in end.items()
        for number, upto in partitions.items()
        if start.get(topic, {}).get(number, 0) < upto
    ]


class TopicReader(DataSourceReader):
    """Everything that is there when the query is planned."""

    def __init__(self, options: TopicOptions) -> None:
        self._options = options

    def partitions(self) -> list[TopicRange]:
        views = Topics(self._options).views(strict=True)
        return plan(
            {},
            {view.name: {str(one.partition): one.next_offset for one in view.partitions} for view in views},
        )

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return read_range(self._options, partition)


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What is new since the last batch."""

    def __init__(self, options: TopicOptions) -> None:
        self._options = options
        self._topics = Topics(options)
        self._target: Offsets | None = None

    def initialOffset(self) -> Offsets:
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._newest({})

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:
        target = self._newest(start) if self._target is None else self._target
        return {**start, **target}

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[TopicRange]:
        return plan(start, end)

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return read_range(self._options, partition)

    def _newest(self, start: Offsets) -> Offsets:
        newest: Offsets = {}
        for view in self._topics.views(strict=False):
            before = start.get(view.name, {})
            newest[view.name] = {
                str(one.partition): one.next_offset if one.messages else before.get(str(one.partition), 0)
                for one in view.partitions
            }
        return newest


def read_range(options: TopicOptions, wanted: Any) -> Iterator[arrow.RecordBatch]:
    if not isinstance(wanted, TopicRange):
        return  # Spark asks for one empty partition where there is nothing to read.
    server = Server(options.url)
    try:
        yield from fetch_rows(server, wanted.topic, wanted.partition, start=wanted.start, end=wanted.end)
    finally:
        server.close()

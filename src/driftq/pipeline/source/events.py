"""The event log as Spark reads it, all at once or as a stream: sealed segments, then the tail over HTTP.

Positions have no gaps, so a range defines how many events it has, and a task that finds fewer fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as arrow
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from driftq.errors import SegmentLost, TopicStartedOver
from driftq.eventstore.objects import Objects, S3Access, open_for_reading
from driftq.eventstore.seal.segment import SCHEMA as SEALED
from driftq.eventstore.seal.segment import read_segment
from driftq.eventstore.stored import SegmentRange, StoredEvent
from driftq.pipeline.source.event_options import EventLogOptions, Position
from driftq.pipeline.source.filters import ValueRange, limits_of
from driftq.pipeline.source.lag import with_lag
from driftq.pipeline.source.waits import Waits
from driftq.pipeline.spark.compat import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from driftq.pipeline.spark.unpacking import SaysWhatIsMissing
from driftq.storage.address import read_instance
from driftq.transport.paths import Query
from driftq.transport.server import Server

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

SCHEMA = arrow.schema([arrow.field(field.name, field.type) for field in SEALED])
POSITION = "position"
"""The one number in Spark's offsets: the next position to read."""
TASK_EVENTS = 200_000
"""Events that one task reads from segments."""
PIECE_EVENTS = 20_000
"""Events that one task fetches over HTTP."""
_PAGE_EVENTS = 5_000

_decode_lines = msgspec.json.Decoder(StoredEvent).decode_lines


class EventLogEnd(msgspec.Struct, frozen=True):
    """The end of the log, and the start of the server that reported it."""

    position: int
    instance: str


@dataclass
class EventRange(InputPartition):
    """Positions for one task: from `start` up to, without, `end`."""

    start: int
    end: int
    segments: tuple[SegmentRange, ...] = ()
    """Where they are sealed."""
    instance: str = ""
    """Which start of the server has them: another machine may have a folder of the same name."""


def spark_schema() -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(SCHEMA)


class EventReader(SaysWhatIsMissing, DataSourceReader):
    """The events that exist when the query is planned."""

    def __init__(self, options: EventLogOptions) -> None:
        self._options = options
        self._limits = ValueRange()

    def partitions(self) -> list[EventRange]:
        log = EventLog(self._options)
        try:
            end = log.next_position()
            start = _exact_position(self._options.starting, end)
            if self._options.ending != "latest":
                end = min(end, _exact_position(self._options.ending, end) + 1)
            left = self._limits.within(start, end)
            return log.plan(left.low or start, end if left.high is None else left.high)
        finally:
            log.close()

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return read_events(self._options, partition)


class NarrowedEventReader(EventReader):
    """Of these events, those that filters on `position` leave; the option `pushDownPredicate` asks for it."""

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:
        """Take the filters as limits. All of them are returned: Spark applies them to the rows as well."""
        self._limits = limits_of(filters).of(POSITION)
        return filters


class EventStreamReader(SaysWhatIsMissing, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The new events since the last batch, up to the limit of one batch."""

    def __init__(self, options: EventLogOptions) -> None:
        self._options = options
        self._log = EventLog(options)
        self._target: int | None = None
        """Where a query with AvailableNow ends."""
        self._seen = 1
        self._given = 1
        self._read = 0
        self._waits = Waits(options.wait_ms)

    def initialOffset(self) -> dict[str, int]:
        return {POSITION: _exact_position(self._options.starting, self._log.next_position())}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.events_max
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._log.next_position()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        at = start[POSITION]
        self._seen = self._log.next_position_from(at)
        if self._seen == at and self._target is None and (wait_ms := self._waits.next_ms()):
            self._log.wait_for(at, wait_ms=wait_ms)
            self._seen = self._log.next_position_from(at)
        end = self._seen if self._target is None else min(self._seen, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, at + limit.max_rows)
        self._given = max(at, end)
        self._read = self._given - at
        return {POSITION: self._given} if self._given > at else start

    def reportLatestOffset(self) -> dict[str, Any]:
        return with_lag({POSITION: self._given}, self._seen - self._given, read=self._read)

    def newest_offsets(self) -> dict[str, int]:
        return {POSITION: self._seen}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[EventRange]:
        self._log.next_position_from(end[POSITION])
        return self._log.plan(start[POSITION], end[POSITION])

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return read_events(self._options, partition)

    def stop(self) -> None:
        self._log.close()


def _exact_position(position: Position, end: int) -> int:
    return 1 if position == "earliest" else end if position == "latest" else position


class EventLog:
    """The driver's side: the end of the log, and which task reads what."""

    def __init__(self, options: EventLogOptions) -> None:
        self._options = options
        self._server = Server(options.url, credentials=options.credentials)

    def next_position(self) -> int:
        """After the last event."""
        return self._end().position + 1

    def next_position_from(self, position: int) -> int:
        """The same; raises TopicStartedOver when the log ends before the position of a query."""
        end = self.next_position()
        if position > end:
            raise TopicStartedOver("the event log", wanted=position, end=end)
        return end

    def wait_for(self, position: int, *, wait_ms: int) -> None:
        """Return when the log has an event there, or when the time is over."""
        query: Query = {"from": position, "limit": 1, "stored": True, "wait_ms": wait_ms}
        self._server.content("/v1/events/log", query)

    def plan(self, start: int, end: int) -> list[EventRange]:
        """Ranges that do not overlap and leave nothing out."""
        if start >= end:
            return []
        instance = self._end().instance
        objects = find_objects(self._options, instance=instance)
        sealed = [] if objects is None else list(objects.segments())
        wanted = [one for one in sealed if one.last >= start and one.first < end]
        planned: list[EventRange] = []
        at = start
        for together in grouped(wanted):
            if together[0].first > at:
                planned += fetched(at, min(end, together[0].first))
            upto = min(end, together[-1].last + 1)
            planned.append(EventRange(max(at, together[0].first), upto, tuple(together), instance))
            at = upto
        return planned + fetched(at, end)

    def close(self) -> None:
        self._server.close()

    def _end(self) -> EventLogEnd:
        return self._server.get("/v1/events/log/end", EventLogEnd)


def find_objects(options: EventLogOptions, *, instance: str) -> Objects | None:
    """The readable storage of segments; None when there is none, or it is another server's."""
    if options.objects_url is not None:
        return open_for_reading(options.objects_url, access=S3Access(endpoint=options.s3_endpoint))
    if not instance or read_instance(options.data) != instance:
        return None
    return open_for_reading(Path(options.data, "objects").as_uri())


def grouped(segments: Sequence[SegmentRange]) -> Iterator[list[SegmentRange]]:
    """Small segments side by side are read by one task."""
    together: list[SegmentRange] = []
    for one in segments:
        fits = not together or (
            one.first == together[-1].last + 1 and one.last - together[0].first < TASK_EVENTS
        )
        if not fits:
            yield together
            together = []
        together.append(one)
    if together:
        yield together


def fetched(start: int, end: int) -> list[EventRange]:
    return [EventRange(at, min(at + PIECE_EVENTS, end)) for at in range(start, end, PIECE_EVENTS)]


def read_events(options: EventLogOptions, wanted: Any) -> Iterator[arrow.RecordBatch]:
    """Every event of a range; raises SegmentLost when one cannot be read."""
    if not isinstance(wanted, EventRange):
        return  # Spark asks for one empty partition where there is nothing to read.
    at = wanted.start
    for segment, table in _sealed(options, wanted):
        upto = min(wanted.end, segment.last + 1)
        for batch in table.slice(at - segment.first, upto - at).to_batches():
            yield arrow.RecordBatch.from_arrays(batch.columns, schema=SCHEMA)
        at = upto
    if at < wanted.end:
        yield from _fetch(options, at, wanted.end)


def _sealed(options: EventLogOptions, wanted: EventRange) -> Iterator[tuple[SegmentRange, arrow.Table]]:
    """Segments one after the other, up to one that cannot be read here."""
    objects = find_objects(options, instance=wanted.instance) if wanted.segments else None
    for segment in wanted.segments:
        if objects is None:
            return  # Another machine than the one that planned; the server has them.
        try:
            yield segment, read_segment(objects.read(segment.name), name=segment.name)
        except SegmentLost:
            return  # Joined with others meanwhile; the server knows where its events are.


def _fetch(options: EventLogOptions, at: int, end: int) -> Iterator[arrow.RecordBatch]:
    server = Server(options.url, credentials=options.credentials)
    try:
        while at < end:
            query: Query = {"from": at, "limit": min(_PAGE_EVENTS, end - at), "stored": True}
            events = _decode_lines(server.content("/v1/events/log", query))
            if not events:
                raise SegmentLost(f"from position {at}", cause="the server's log ends before it")
            at += len(events)
            yield to_batch(events)
    finally:
        server.close()


def to_batch(events: Sequence[StoredEvent]) -> arrow.RecordBatch:
    columns = zip(*map(msgspec.structs.astuple, events), strict=True)
    arrays = [arrow.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return arrow.RecordBatch.from_arrays(arrays, schema=SCHEMA)

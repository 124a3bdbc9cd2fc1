"""The event log as Spark reads it: all at once, or as a stream by position."""

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

from driftq.pipeline.source.event_options import EventLogOptions, Position
from driftq.pipeline.source.events import EventLog, EventRange, read_events
from driftq.pipeline.source.lag import with_lag

if TYPE_CHECKING:
    import pyarrow as arrow

POSITION = "position"
"""The one number in Spark's offsets: the next position to read."""


class EventReader(DataSourceReader):
    """The events that exist when the query is planned."""

    def __init__(self, options: EventLogOptions) -> None:
        self._options = options

    def partitions(self) -> list[EventRange]:
        log = EventLog(self._options)
        try:
            end = log.next_position()
            start = _exact_position(self._options.starting, end)
            ending = self._options.ending
            return log.plan(start, end if ending == "latest" else min(end, _exact_position(ending, end) + 1))
        finally:
            log.close()

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return read_events(self._options, partition)


class EventStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The new events since the last batch, up to the limit of one batch."""

    def __init__(self, options: EventLogOptions) -> None:
        self._options = options
        self._log = EventLog(options)
        self._target: int | None = None
        """Where a query with AvailableNow ends."""
        self._seen = 1
        self._given = 1

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
        end = self._seen if self._target is None else min(self._seen, self._target)
        if isinstance(limit, ReadMaxRows):
            end = min(end, at + limit.max_rows)
        self._given = max(at, end)
        return {POSITION: self._given}

    def reportLatestOffset(self) -> dict[str, Any]:
        return with_lag({POSITION: self._given}, self._seen - self._given)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[EventRange]:
        self._log.next_position_from(end[POSITION])
        return self._log.plan(start[POSITION], end[POSITION])

    def read(self, partition: Any) -> Iterator[arrow.RecordBatch]:
        return read_events(self._options, partition)

    def stop(self) -> None:
        self._log.close()


def _exact_position(position: Position, end: int) -> int:
    return 1 if position == "earliest" else end if position == "latest" else position

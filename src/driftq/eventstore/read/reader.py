"""Reading events: SQL locates each one, and a segment has the texts of those that were trimmed.

Every event is checked against its stored hash: EventDamaged when its content differs.
"""

import json
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.errors import SegmentLost
from driftq.eventstore.outcome import (
    ALL_EVENTS,
    AggregatePage,
    EventFilter,
    LogPage,
    StoredPage,
    TimeMark,
    TimePage,
)
from driftq.eventstore.stored import (
    SegmentRange,
    StoredEvent,
    damaged,
    stored_event,
    verified,
    verify_content,
)
from driftq.model import Aggregate, Event, Operation
from driftq.model.time import utc
from driftq.sql import Database, Queries, Transaction, as_rows

if TYPE_CHECKING:
    from driftq.eventstore.objects import Objects

_SEGMENTS_KEPT = 2
_LOOKED_AT = 50_000
"""Positions that one read with a filter looks at."""
_FIRST_MARK = TimeMark(occurred_at_us=-(2**63), position=0)


class Reader:
    """Pages of events. Safe to share between threads."""

    def __init__(self, database: Database, queries: Queries, objects: "Objects | None") -> None:
        self._database = database
        self._queries = queries
        self._texts = SegmentTexts(objects)

    def aggregate(self, aggregate: Aggregate, *, from_seq: int, limit: int) -> AggregatePage:
        with self._database.snapshot() as snapshot:
            found = snapshot.rows(
                self._queries["aggregate_events"],
                aggregate_type=aggregate.type,
                aggregate_id=aggregate.id,
                from_seq=from_seq,
                events_max=limit + 1,
            )
            segments = self._segments(snapshot, found[:limit])
        events = self._events(found[:limit], segments)
        return AggregatePage(events, found[limit].sequence_number if len(found) > limit else None)

    def has_type(self, aggregate_type: str) -> bool:
        with self._database.snapshot() as snapshot:
            return bool(snapshot.rows(self._queries["events_of_type"], aggregate_type=aggregate_type))

    def log(self, *, from_position: int, limit: int, wanted: EventFilter) -> LogPage:
        found, segments, following = self._log_rows(from_position, limit, wanted)
        return LogPage(self._events(found, segments), following)

    def stored_log(self, *, from_position: int, limit: int, wanted: EventFilter) -> StoredPage:
        """The same events in their stored form, with their texts."""
        found, segments, following = self._log_rows(from_position, limit, wanted)
        sealed = {event.position: event for each in segments for event in self._texts.of(each)}
        events = [
            verified(sealed_event(row, sealed)) if row.payload is None else stored_event(row) for row in found
        ]
        return StoredPage(events, following)

    def _log_rows(
        self, from_position: int, limit: int, wanted: EventFilter
    ) -> tuple[Sequence[Any], list[SegmentRange], int]:
        """Rows of the log, their segments, and the position after all that were looked at."""
        with self._database.snapshot() as snapshot:
            if wanted == ALL_EVENTS:
                last = from_position + limit - 1
                found = snapshot.rows(self._queries["log_events"], first=from_position, last=last)
                following = from_position + len(found)
            else:
                found, following = self._wanted_rows(snapshot, from_position, limit, wanted)
            return found, self._segments(snapshot, found), following

    def _wanted_rows(
        self, snapshot: Transaction, from_position: int, limit: int, wanted: EventFilter
    ) -> tuple[Sequence[Any], int]:
        """One request looks at so many positions: a rare type must not hold up other readers."""
        end = snapshot.row(self._queries["log_end"]).last
        last = min(end, from_position + _LOOKED_AT - 1)
        asked: dict[str, Any] = {
            "first": from_position,
            "last": last,
            "aggregate_type": wanted.aggregate_type,
            "event_type": wanted.event_type,
            "events_max": limit,
        }
        if wanted.types is None:
            found = snapshot.rows(self._queries["log_events_of"], **asked)
        else:
            types = as_rows([{"aggregate_type": name} for name in wanted.types])
            found = snapshot.rows(self._queries["log_events_of_types"], g=types, **asked)
        full = len(found) == limit
        return found, max(from_position, (found[-1].position if full else last) + 1)

    def time(self, *, since_us: int, until_us: int, limit: int, after: TimeMark | None) -> TimePage:
        mark = after or _FIRST_MARK
        with self._database.snapshot() as snapshot:
            found = snapshot.rows(
                self._queries["events_of_time"],
                since_us=since_us,
                until_us=until_us,
                after_us=mark.occurred_at_us,
                after_position=mark.position,
                events_max=limit,
            )
            segments = self._segments(snapshot, found)
        last = TimeMark(found[-1].occurred_at_us, found[-1].position) if len(found) == limit else None
        return TimePage(self._events(found, segments), last)

    def end(self) -> int:
        with self._database.snapshot() as snapshot:
            row = snapshot.row(self._queries["log_end"])
        return row.last if row else 0

    def _segments(self, snapshot: Transaction, found: Sequence[Any]) -> list[SegmentRange]:
        trimmed = [{"position": row.position} for row in found if row.payload is None]
        if not trimmed:
            return []
        sealed = snapshot.rows(self._queries["segments_of"], g=as_rows(trimmed))
        return [SegmentRange(row.first_position, row.last_position) for row in sealed]

    def _events(self, found: Sequence[Any], segments: Sequence[SegmentRange]) -> list[Event]:
        sealed = {event.position: event for each in segments for event in self._texts.of(each)}
        return [_event(row, sealed) for row in found]


class SegmentTexts:
    """The events of segments, with the last few cached; segments never change."""

    def __init__(self, objects: "Objects | None") -> None:
        self._objects = objects
        self._kept: OrderedDict[SegmentRange, list[StoredEvent]] = OrderedDict()
        self._lock = Lock()

    def of(self, segment: SegmentRange) -> list[StoredEvent]:
        """All events of a segment; raises SegmentLost when they cannot be read."""
        with self._lock:
            if segment in self._kept:
                self._kept.move_to_end(segment)
                return self._kept[segment]
        if self._objects is None:
            raise SegmentLost(segment.name, cause="this event store was opened without object storage")
        events = self._read(segment, self._objects)
        with self._lock:
            self._kept[segment] = events
            while len(self._kept) > _SEGMENTS_KEPT:
                self._kept.popitem(last=False)
        return events

    @staticmethod
    def _read(segment: SegmentRange, objects: "Objects") -> list[StoredEvent]:
        from driftq.eventstore.seal.segment import decode_segment  # pyarrow is needed only here

        try:
            return decode_segment(objects.read(segment.name), name=segment.name)
        except SegmentLost:
            larger = _covering(segment, objects)
            if larger is None or larger == segment:
                raise
        events = decode_segment(objects.read(larger.name), name=larger.name)
        return events[segment.first - larger.first : segment.last - larger.first + 1]


def _covering(segment: SegmentRange, objects: "Objects") -> SegmentRange | None:
    """The segment that this one was joined into."""
    for one in objects.segments():
        if one.first <= segment.first and segment.last <= one.last:
            return one
    return None


def sealed_event(row: Any, sealed: dict[int, StoredEvent]) -> StoredEvent:
    if row.position not in sealed:
        raise SegmentLost(f"of position {row.position}", cause="no sealed segment holds it")
    return sealed[row.position]


def _event(row: Any, sealed: dict[int, StoredEvent]) -> Event:
    text = sealed_event(row, sealed) if row.payload is None else row
    try:
        return _read(row, text)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise damaged(row, f"it cannot be read ({error!r})") from error


def _read(row: Any, text: Any) -> Event:
    """The row's event with these texts."""
    metadata = json.loads(text.metadata)
    verify_content(row, kind=metadata["kind"], payload=text.payload)
    return Event(
        event_id=row.event_id,
        aggregate_type=row.aggregate_type,
        aggregate_id=row.aggregate_id,
        event_type=row.event_type,
        payload=json.loads(text.payload),
        kind=metadata["kind"],
        operation=Operation(row.operation),
        sequence_number=row.sequence_number,
        occurred_at=utc(row.occurred_at_us),
        metadata=metadata,
        schema_version=msgspec.json.decode(row.schema_version, type=int | str),
        position=row.position,
    )

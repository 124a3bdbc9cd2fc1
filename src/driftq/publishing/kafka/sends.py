"""The events of one lane, sent to Kafka in transactions that move the lane's position.

A lane without events moves too: its position says that everything of it up to there is sent.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import msgspec

from driftq.eventstore.published import PUBLISHED_COLUMNS, encode_fields, topic_of, trace_of
from driftq.publishing.kafka.lane import OutgoingEvent
from driftq.publishing.kafka.positions import LaneRefused
from driftq.publishing.kafka.writer import LaneTargets, LaneWriter
from driftq.publishing.lanes import Refusal
from driftq.telemetry.tracing import TRACEPARENT

Row = tuple[Any, ...]
"""The values of PUBLISHED_COLUMNS."""
_METADATA = PUBLISHED_COLUMNS.index("metadata")
_CONTENT_TYPE = ("content-type", "application/json")


class RowBatch(NamedTuple):
    """Some rows of a lane, in log order."""

    rows: Iterable[Row]
    recent: list[tuple[int, str]]
    """Position and id of the last events among them."""


class LaneReport(msgspec.Struct):
    """What became of a lane."""

    lane: int
    events: int = 0
    """How many it was given, each position counted once."""
    sent: int = 0
    dead_letters: int = 0
    opening: str | None = None
    topics: dict[str, str] = {}
    """The topics that got events, with their ids."""
    recent: list[tuple[int, str]] = []
    refusal: Refusal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneSends:
    """How a run sends a batch, as plain values."""

    lanes: LaneTargets
    first: int
    last: int
    """The batch holds the whole log from `first` to `last`, both included."""
    topic_ids: dict[str, str]
    transaction_events: int
    recent_max: int

    def send(self, lane: int, batches: Iterable[RowBatch]) -> LaneReport:
        """All rows of a lane. A refusal is part of the report."""
        report = LaneReport(lane)
        collecting = gc.isenabled()
        gc.disable()  # A transaction holds hundreds of thousands of objects without a cycle among them.
        try:
            self._send(lane, batches, report)
        except LaneRefused as refused:
            report.refusal = Refusal(refused.replaced, refused.text)
        finally:
            if collecting:
                gc.enable()
        return report

    def _send(self, lane: int, batches: Iterable[RowBatch], report: LaneReport) -> None:
        writer = LaneWriter(self.lanes.of(lane), topic_ids=self.topic_ids)
        writer.require_no_gap(self.first)
        unsent: list[OutgoingEvent] = []
        at = 0
        for batch in batches:
            sent = writer.positions.sent
            for fields in batch.rows:
                position, aggregate_type = fields[-1], fields[1]
                if position <= at:
                    continue  # The same row twice.
                at = position
                report.events += 1
                topic = _topic(aggregate_type)
                if at > sent(topic):
                    unsent.append(_outgoing(topic, fields))
                    if len(unsent) == self.transaction_events:
                        writer.commit(unsent, upto=at)
                        unsent = []
                        sent = writer.positions.sent
            if self.recent_max:
                report.recent = [*report.recent, *batch.recent][-self.recent_max :]
        writer.commit(unsent, upto=self.last)
        writer.finish()
        report.sent, report.dead_letters = writer.sent, writer.dead_letters
        report.topics, report.opening = writer.sent_to, writer.opening


_topic = cache(topic_of)


def _outgoing(topic: str, fields: Row) -> OutgoingEvent:
    """The message of an event: readers find its columns in the headers, the first four in this order."""
    event_id, aggregate_type, aggregate_id, sequence_number, *_, position = fields
    trace = trace_of(fields[_METADATA])
    return OutgoingEvent(
        position,
        topic,
        aggregate_id,
        encode_fields(*fields),
        [
            ("event_id", event_id),
            ("aggregate_type", aggregate_type),
            ("aggregate_id", aggregate_id),
            ("sequence_number", str(sequence_number)),
            ("position", str(position)),
            _CONTENT_TYPE,
            *([] if trace is None else [(TRACEPARENT, trace)]),
        ],
    )

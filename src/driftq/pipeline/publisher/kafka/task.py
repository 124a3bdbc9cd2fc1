"""One Spark task of the publisher to Kafka: the events of one lane, in log order, in transactions.

It runs in a worker process away from the driver, so it holds only values and returns one report. A task that
runs twice finds in the lane's position what is sent.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.eventstore.published import PUBLISHED_COLUMNS, encode_fields, topic_of, trace_of
from driftq.eventstore.stored import column_values
from driftq.pipeline.publisher.kafka.lane import OutgoingEvent
from driftq.pipeline.publisher.kafka.positions import LaneRefused
from driftq.pipeline.publisher.kafka.writer import LaneTargets, LaneWriter
from driftq.pipeline.publisher.lane_task import LANE, Refusal, own_lane, report_row
from driftq.telemetry.tracing import TRACEPARENT

if TYPE_CHECKING:
    import pyarrow as arrow

Row = tuple[Any, ...]
"""The values of PUBLISHED_COLUMNS."""
_METADATA = PUBLISHED_COLUMNS.index("metadata")
_CONTENT_TYPE = ("content-type", "application/json")


class LaneReport(msgspec.Struct):
    """The result of a task."""

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
class KafkaLaneTask:
    """For `mapInArrow`: rows of one lane in, one report out; also where there are no rows."""

    lanes: LaneTargets
    first: int
    last: int
    """The batch holds the whole log from `first` to `last`, both included."""
    topic_ids: dict[str, str]
    transaction_events: int
    recent_max: int

    def __call__(self, batches: Iterator[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
        yield report_row(self.publish(own_lane(), batches))

    def publish(self, lane: int, batches: Iterator[arrow.RecordBatch]) -> LaneReport:
        report = LaneReport(lane)
        collecting = gc.isenabled()
        gc.disable()  # A transaction holds hundreds of thousands of objects without a cycle among them.
        try:
            self._publish(lane, batches, report)
        except LaneRefused as refused:
            report.refusal = Refusal(refused.replaced, refused.text)
        finally:
            if collecting:
                gc.enable()
        return report

    def _publish(self, lane: int, batches: Iterator[arrow.RecordBatch], report: LaneReport) -> None:
        writer = LaneWriter(self.lanes.of(lane), topic_ids=self.topic_ids)
        writer.require_no_gap(self.first)
        unsent: list[OutgoingEvent] = []
        at = 0
        for batch in batches:
            _require_lane(batch, lane)
            sent = writer.positions.sent
            for fields in _rows(batch):
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
            self._remember(report, batch)
        writer.commit(unsent, upto=self.last)
        writer.finish()
        report.sent, report.dead_letters = writer.sent, writer.dead_letters
        report.topics, report.opening = writer.sent_to, writer.opening

    def _remember(self, report: LaneReport, batch: arrow.RecordBatch) -> None:
        """The last events that were published, up to the limit."""
        if self.recent_max:
            tail = batch.slice(max(0, batch.num_rows - self.recent_max))
            pairs = zip(tail.column("position").to_pylist(), tail.column("event_id").to_pylist(), strict=True)
            report.recent = [*report.recent, *pairs][-self.recent_max :]


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


def _rows(batch: arrow.RecordBatch) -> Iterator[Row]:
    columns = [column_values(batch.column(name)) for name in PUBLISHED_COLUMNS]
    return zip(*columns, strict=True)


def _require_lane(batch: arrow.RecordBatch, lane: int) -> None:
    """Rows of another lane would be sent out of its order: Spark has to divide them by lane."""
    import pyarrow.compute

    strangers = pyarrow.compute.not_equal(batch.column(LANE), lane)
    if pyarrow.compute.any(strangers).as_py():
        raise AssertionError(f"the task of lane {lane} got rows of another lane")

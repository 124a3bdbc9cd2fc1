"""One Spark task of the publisher: it appends the events of its lanes to their topics, in log order.

It runs in a worker process away from the driver, so it holds only values and returns one report.
A task that runs twice sends the same positions twice, and the topic skips them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from driftq.errors import LaneBehind, WriterFenced
from driftq.eventstore.published import encode_published, topic_of, trace_of
from driftq.eventstore.stored import StoredEvent, stored_events
from driftq.model import Envelope
from driftq.model.options.credentials import NO_CREDENTIALS, Credentials
from driftq.model.wire.append import PositionedMessage
from driftq.pipeline.server import Server
from driftq.pipeline.sink.lane_sender import LaneSender
from driftq.telemetry.tracing import is_sampled

if TYPE_CHECKING:
    import pyarrow as arrow

LANE = "lane"
REPORT_SCHEMA = "report string"
TRACES_MAX = 64
"""Traces that one task reports, for the driver's spans."""
TOPIC_PARTITIONS = 4
"""Of a topic that the publisher creates; an existing one is used as it is."""


def report_row(report: msgspec.Struct) -> arrow.RecordBatch:
    """The report of a task as its only row."""
    import pyarrow as arrow

    return arrow.RecordBatch.from_pydict({"report": [msgspec.json.encode(report).decode()]})


def own_lane() -> int:
    """The lane of the task that this runs in: rows are divided so that each lane has one."""
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None  # It runs in a task.
    return context.partitionId()


class Refusal(msgspec.Struct, frozen=True):
    """Why a topic refused an append: the driver raises the corresponding error."""

    replaced: bool
    """A newer run has started; otherwise the topic has lost confirmed messages."""
    text: str


class Report(msgspec.Struct):
    """The result of a task."""

    appended: int = 0
    skipped: int = 0
    position: int = 0
    """The last position it was given."""
    topics: dict[str, dict[int, int]] = {}
    recent: list[tuple[int, str]] = []
    refusal: Refusal | None = None
    traces: list[str] = []
    """The sampled traces of its events, up to a limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTask:
    """For `mapInArrow`: rows of the event log with their lane in, one report out."""

    url: str
    writer: str
    epoch: int
    confirmed: dict[str, dict[int, int]]
    """The confirmed positions of the topics; one that has less must not be written to."""
    sent_ids: frozenset[str]
    chunk_events: int
    patience_s: float
    recent_max: int
    credentials: Credentials = NO_CREDENTIALS

    def __call__(self, batches: Iterator[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
        yield report_row(self.publish(batches))

    def publish(self, batches: Iterator[arrow.RecordBatch]) -> Report:
        server = Server(self.url, credentials=self.credentials, patience_s=self.patience_s)
        sender = LaneSender(
            server,
            writer=self.writer,
            epoch=self.epoch,
            chunk=self.chunk_events,
            confirmed=self.confirmed,
            partitions=TOPIC_PARTITIONS,
        )
        recent: deque[tuple[int, str]] = deque(maxlen=self.recent_max)
        report = Report()
        try:
            for lane, event in _events(batches):
                if event.event_id not in self.sent_ids:
                    trace = trace_of(event.metadata)
                    message = PositionedMessage(
                        event.position,
                        encode_published(event),
                        event.aggregate_id,
                        None if trace is None else Envelope(traceparent=trace),
                    )
                    sender.send(_topic(event.aggregate_type), lane, message)
                    if trace is not None and len(report.traces) < TRACES_MAX and is_sampled(trace):
                        report.traces.append(trace)
                report.position = max(report.position, event.position)
                recent.append((event.position, event.event_id))
            sender.flush()
        except (WriterFenced, LaneBehind) as refused:
            report.refusal = Refusal(isinstance(refused, WriterFenced), str(refused))
        finally:
            server.close()
        report.appended, report.skipped = sender.appended, sender.skipped
        report.topics, report.recent = sender.moved, list(recent)
        return report


_topic = cache(topic_of)


def _events(batches: Iterator[arrow.RecordBatch]) -> Iterator[tuple[int, StoredEvent]]:
    for batch in batches:
        yield from zip(batch.column(LANE).to_pylist(), stored_events(batch), strict=True)

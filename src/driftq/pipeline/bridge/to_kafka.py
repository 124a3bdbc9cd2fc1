"""DriftQ → Kafka: messages and the lane's position in one transaction, as the publisher sends events.

A lane is a partition of the DriftQ topic, and its position is the next offset to copy. A run commits its
stamp to every lane before it sends anything, so a bridge that was replaced refuses itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from driftq.errors import BridgeReplaced, TopicBehind
from driftq.model import TopicView
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.bridge.batches import (
    CopyReport,
    LaneOrder,
    divided,
    reports_of,
    require_accepted,
    skipped_ranges,
    summed,
)
from driftq.pipeline.bridge.messages import StoredRow, bridge_letter, to_kafka
from driftq.pipeline.bridge.route import BridgeRoute
from driftq.pipeline.publisher.lane_task import REPORT_SCHEMA, own_lane, report_row
from driftq.publishing.kafka.lane import LaneLog, OutgoingEvent
from driftq.publishing.kafka.positions import HOMES, LaneRefused, RunStamp
from driftq.publishing.kafka.take_over import TakenLanes, newest_epoch, prepare_positions, take_lanes
from driftq.publishing.kafka.writer import LaneTargets, LaneWriter
from driftq.publishing.lanes import Refusal

if TYPE_CHECKING:
    import pyarrow as arrow
    from pyspark.sql import DataFrame

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "envelope", "headers")
_ATTEMPTS = 3


def log_of(view: TopicView, topic: str) -> str:
    """What the lanes of a bridge are known by: the DriftQ topic's identity, and the topic of Kafka."""
    return f"bridge-{view.id or view.name}-{topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToKafkaTask:
    """For `mapInArrow`: rows of one lane in, one report out."""

    lanes: LaneTargets
    bridge: str
    identity: str
    topic: str
    topic_id: str
    partitions: int
    after: Mapping[int, int]
    """Of each lane the last offset of the batches before; everything up to it is on Kafka."""
    transaction_events: int

    def __call__(self, batches: Iterator[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
        yield report_row(self.copy(own_lane(), batches))

    def copy(self, lane: int, batches: Iterator[arrow.RecordBatch]) -> CopyReport:
        report = CopyReport()
        try:
            self._copy(lane, batches, report)
        except LaneRefused as refused:
            report.refusal = Refusal(refused.replaced, refused.text)
        return report

    def _copy(self, lane: int, batches: Iterator[arrow.RecordBatch], report: CopyReport) -> None:
        writer: LaneWriter | None = None
        order = LaneOrder(self.after)
        unsent: list[OutgoingEvent] = []
        rows = 0
        for batch in batches:
            for row in _rows(batch):
                if writer is None:
                    writer = self._open(lane)
                order.follow(row.partition, row.offset)
                assert row.partition == lane  # The rows were divided by it.
                rows += 1
                message = to_kafka(row, self.topic, partitions=self.partitions)
                if message.position > writer.positions.sent(self.topic):
                    unsent.append(message)
                if len(unsent) == self.transaction_events:
                    writer.commit(unsent, upto=message.position)
                    unsent = []
        if writer is None:
            return  # Nothing for this lane.
        last = order.lasts[lane]
        writer.commit(unsent, upto=last + 1)
        writer.finish()
        report.lasts, report.openings = {lane: last}, {lane: writer.opening}
        report.copied, report.dead_letters = writer.sent, writer.dead_letters
        report.skipped = rows - writer.sent - writer.dead_letters
        report.topic_id = writer.sent_to.get(self.topic)

    def _open(self, lane: int) -> LaneWriter:
        letter = partial(bridge_letter, bridge=self.bridge, identity=self.identity)
        writer = LaneWriter(self.lanes.of(lane), topic_ids={self.topic: self.topic_id}, letter=letter)
        # The batch begins after the last one, and that is what the lane must have.
        writer.require_no_gap(self.after[lane] + 2)
        return writer


class ToKafkaRun:
    """From one start to the next: it owns every lane, and copies one batch after the other."""

    def __init__(
        self, options: PipelineOptions, route: BridgeRoute, view: TopicView, lanes: LaneLog, taken: TakenLanes
    ) -> None:
        self._options = options
        self._route = route
        self._view = view
        self._lanes = lanes
        self._stamp = taken.run
        self._openings: dict[int, str] = {}
        topic = route.target.topic
        self._topic_id = lanes.cluster.topic_ids([topic])[topic]
        self._partitions = lanes.cluster.partitions(topic)
        self._after = {lane: found.lowest - 1 for lane, found in taken.positions.items()}

    @property
    def starting(self) -> dict[int, int]:
        """Of each partition that has been copied from, the next offset that is stored."""
        stored = {one.partition: one.first_offset for one in self._view.partitions}
        return {lane: max(after + 1, stored[lane]) for lane, after in self._after.items() if after >= 0}

    @property
    def removed(self) -> dict[int, tuple[int, int]]:
        """Offsets that retention removed before they were copied: the first, and the one after the last."""
        return skipped_ranges(self._after, self.starting)

    def copy(self, rows: DataFrame) -> CopyReport:
        """One batch; raises BridgeReplaced, TopicBehind, or an error of Kafka."""
        self.require_target()
        task: Any = self.task()
        parts = divided(rows.select(*COLUMNS), lanes=len(self._view.partitions))
        return self.confirm(reports_of(parts.mapInArrow(task, REPORT_SCHEMA).collect()))

    def require_target(self) -> None:
        """Raises TopicBehind when the topic on Kafka was deleted or created again since the run began."""
        topic = self._route.target.topic
        if self._lanes.cluster.topic_ids([topic]).get(topic) != self._topic_id:
            raise TopicBehind(f"topic {topic} was deleted")

    def confirm(self, reports: Sequence[CopyReport]) -> CopyReport:
        """All tasks of a batch are done: the next one follows. Raises when one was refused."""
        require_accepted(reports, route=str(self._route))
        for report in reports:
            self._after |= report.lasts
            self._openings |= report.openings
            if report.topic_id not in (None, self._topic_id):
                raise TopicBehind(f"topic {self._route.target.topic} was deleted and created again")
        return summed(reports)

    def task(self) -> ToKafkaTask:
        settings = self._options.publisher
        return ToKafkaTask(
            lanes=LaneTargets(
                options=self._options.kafka,
                log=self._lanes.log,
                run=self._stamp,
                openings=dict(self._openings),
                flush_events=settings.flush_events,
                patience_s=settings.flush_timeout_seconds,
            ),
            bridge=self._route.name,
            identity=self._view.id,
            topic=self._route.target.topic,
            topic_id=self._topic_id,
            partitions=self._partitions,
            after=dict(self._after),
            transaction_events=settings.transaction_events,
        )

    def close(self) -> None:
        self._lanes.close()


def begin_to_kafka(options: PipelineOptions, route: BridgeRoute, view: TopicView) -> ToKafkaRun:
    """Take over: from here on every older bridge on this route refuses itself. Raises BridgeReplaced."""
    lanes = LaneLog(
        options.kafka, log_of(view, route.target.topic), patience_s=options.publisher.flush_timeout_seconds
    )
    try:
        count = len(view.partitions)
        prepare_positions(lanes.cluster, lanes=HOMES)
        lanes.cluster.create_topic(route.target.topic, partitions=count)
        return ToKafkaRun(options, route, view, lanes, _take_over(lanes, route, count=count))
    except BaseException:
        lanes.close()
        raise


def copies_back(options: KafkaOptions, view: TopicView, topic: str) -> bool:
    """Whether a bridge has copied this DriftQ topic to this topic of Kafka."""
    lanes = LaneLog(options, log_of(view, topic), patience_s=30.0)
    try:
        return newest_epoch(lanes, [0]) != (0, None)
    finally:
        lanes.close()


def _take_over(lanes: LaneLog, route: BridgeRoute, *, count: int) -> TakenLanes:
    newest, _ = newest_epoch(lanes, range(count))
    for _ in range(_ATTEMPTS):
        try:
            return take_lanes(lanes, RunStamp(newest + 1, uuid4().hex), count=count)
        except LaneRefused as refused:  # Another one starts too, or an open transaction hid its stamp.
            newest = max(newest, refused.epoch or 0)
    raise BridgeReplaced(str(route))


def _rows(batch: arrow.RecordBatch) -> Iterator[StoredRow]:
    import pyarrow as arrow

    columns = {name: batch.column(name) for name in COLUMNS}
    columns["timestamp"] = columns["timestamp"].cast(arrow.timestamp("us", "UTC")).view(arrow.int64())
    for topic, partition, offset, at_us, key, value, envelope, headers in zip(
        *(columns[name].to_pylist() for name in COLUMNS), strict=True
    ):
        yield StoredRow(topic, partition, offset, at_us // 1000, key, value, envelope, headers)

"""A run of the publisher, from its start to its end: it publishes and confirms one batch after the other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.errors import PublisherReplaced, TopicBehind
from driftq.eventstore.seal.segment import SCHEMA
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.publisher.checkpoint import Checkpoint, CheckpointStore
from driftq.pipeline.publisher.lane_task import LANE, REPORT_SCHEMA, LaneTask, Refusal, Report
from driftq.pipeline.publisher.resume import Resume
from driftq.telemetry.tracing import report_spans

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MARKS_MAX = 100

_decode = msgspec.json.Decoder(Report).decode


class PublisherRun:
    """To DriftQ topics; a subclass publishes elsewhere. Everything happens on the query's own thread."""

    def __init__(
        self,
        options: PipelineOptions,
        store: CheckpointStore,
        resume: Resume,
        *,
        remembered: Iterable[tuple[int, str]] = (),
    ) -> None:
        self._options = options
        self._store = store
        self._resume = resume
        self.checkpoint: Checkpoint = resume.checkpoint
        known = [*remembered, *resume.checkpoint.recent]
        self.recent: deque[tuple[int, str]] = deque(known, options.publisher.dedup_events_max)
        self.appended = 0
        self.skipped = 0
        self.dead_letters = 0
        self.batches = 0

    @property
    def after(self) -> int:
        """The log is read after this position."""
        return self._resume.after

    def __call__(self, rows: DataFrame, batch_id: int) -> None:
        self.publish(rows)

    def publish(self, rows: DataFrame) -> None:
        """One micro-batch: each lane in one task, in log order."""
        task: Any = self.task()
        began_ns = time.time_ns()
        reports = self.divided(rows).mapInArrow(task, REPORT_SCHEMA).collect()
        self.confirm([row.report for row in reports], began_ns=began_ns)

    def close(self) -> None:
        """Drop what the run holds in the driver; another run follows, or none."""

    def divided(self, rows: DataFrame, columns: Sequence[str] = tuple(SCHEMA.names)) -> DataFrame:
        """These columns by lane, one partition each, in log order."""
        from pyspark.sql import functions as sql

        from driftq.pipeline.spark.compat import repartition_by_id

        lanes = self.checkpoint.lanes
        lane = (sql.crc32(sql.col("aggregate_id").cast("binary")) % lanes).cast("int")
        named = rows.select(*columns).withColumn(LANE, lane)
        return repartition_by_id(named, lanes, LANE).sortWithinPartitions("position")

    def task(self) -> LaneTask:
        """The task of the next batch."""
        settings = self._options.publisher
        looks_back = self.checkpoint.position == self._resume.checkpoint.position
        return LaneTask(
            url=self._options.url,
            credentials=self._options.credentials,
            writer=self.checkpoint.publisher,
            epoch=self.checkpoint.epoch,
            confirmed=self.checkpoint.topics,
            sent_ids=self._resume.sent_ids if looks_back else frozenset(),
            chunk_events=min(settings.batch_events, settings.flush_events),
            patience_s=settings.flush_timeout_seconds,
            recent_max=settings.dedup_events_max,
        )

    def confirm(self, reports: Sequence[str], *, began_ns: int) -> None:
        """All tasks of a batch are done: move the checkpoint over it. Raises when one was refused."""
        decoded = [_decode(report) for report in reports]
        self.require_accepted(report.refusal for report in decoded)
        position = max([self.checkpoint.position, *[report.position for report in decoded]])
        self.appended += sum(report.appended for report in decoded)
        self.skipped += sum(report.skipped for report in decoded)
        self.save(
            position,
            topics=[report.topics for report in decoded],
            recent=[one for report in decoded for one in report.recent],
        )
        report_spans(
            "publish events",
            [trace for report in decoded for trace in report.traces],
            began_ns=began_ns,
            ended_ns=time.time_ns(),
            attributes={"messaging.system": "driftq", "messaging.operation.name": "publish"},
        )

    def require_accepted(self, refusals: Iterable[Refusal | None]) -> None:
        """Raises PublisherReplaced or TopicBehind for a task that was refused."""
        for refusal in refusals:
            if refusal is not None and refusal.replaced:
                raise PublisherReplaced(self.checkpoint.publisher, epoch=self.checkpoint.epoch)
            if refusal is not None:
                raise TopicBehind(refusal.text)

    def save(
        self,
        position: int,
        *,
        topics: Iterable[Mapping[str, Mapping[int, int]]],
        recent: Iterable[tuple[int, str]],
    ) -> None:
        """Everything up to `position` is confirmed, on these topics and lanes up to their positions."""
        settings = self._options.publisher
        self.recent.extend(sorted(recent))
        self.batches += 1
        known = {topic: dict(lanes) for topic, lanes in self.checkpoint.topics.items()}
        for moved in topics:
            for topic, lanes in moved.items():
                known.setdefault(topic, {}).update(lanes)
        now_ms = time.time_ns() // 1_000_000
        since_ms = now_ms - settings.lookback_seconds * 1_000
        marks = [mark for mark in self.checkpoint.marks if mark[0] >= since_ms]
        kept = settings.dedup_checkpoint_events_max
        self.checkpoint = msgspec.structs.replace(
            self.checkpoint,
            position=position,
            topics=known,
            recent=list(self.recent)[-kept:] if kept else [],
            marks=[*marks[-_MARKS_MAX:], (now_ms, self.checkpoint.position)],
        )
        self._store.save(self.checkpoint)

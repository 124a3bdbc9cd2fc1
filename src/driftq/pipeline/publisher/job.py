"""The publisher as a streaming query: event log → lanes → topics, with its own checkpoint as the truth.

A start does not use Spark's checkpoint: every start gets an empty one, and the position to begin at comes
from our own, which moves only after the appends of every task of a batch are confirmed.
"""

from __future__ import annotations

import shutil
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from driftq.errors import EventStoreUnusable, InvalidArgument, PublisherReplaced, TopicBehind
from driftq.eventstore.opening import open_event_objects
from driftq.eventstore.seal.segment import SCHEMA
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.publisher.checkpoint import Checkpoint, CheckpointStore
from driftq.pipeline.publisher.lane_task import LANE, REPORT_SCHEMA, LaneTask, Report
from driftq.pipeline.publisher.meter import Meter
from driftq.pipeline.publisher.resume import Resume, begin
from driftq.pipeline.server import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "publisher"
TRANSPORT = "driftq"
BATCH_EVENTS = 200_000
"""Events in one micro-batch, after which the checkpoint moves."""
_MARKS_MAX = 100

_decode = msgspec.json.Decoder(Report).decode


class Publisher:
    """A StreamJob. Run one for an event log: a second takes over from the first."""

    name = NAME
    needs_server = True

    def __init__(self, options: PipelineOptions) -> None:
        if options.publisher.transport != TRANSPORT:
            raise InvalidArgument("transport", f"the publisher sends to {TRANSPORT} topics only")
        self._options = options
        self._run: PublisherRun | None = None

    def start(self, spark: SparkSession, *, once: bool) -> StreamingQuery:
        """Take over from any other publisher of this log, and begin."""
        beginning = self.begin()
        run = self._run = PublisherRun(
            self._options,
            self._store,
            beginning,
            remembered=self._remembered(),
        )
        folder = self._spark_checkpoint(beginning.checkpoint.epoch)
        writing = (
            self.events(spark, after=beginning.after)
            .writeStream.queryName(NAME)
            .option("checkpointLocation", folder)
            .foreachBatch(lambda rows, _: self._publish(run, rows))
        )
        query = (writing.trigger(availableNow=True) if once else writing).start()
        Meter(run, interval_s=self._options.publisher.metrics_interval_seconds).follow(query)
        return query

    def events(self, spark: SparkSession, *, after: int) -> DataFrame:
        """The event log after a position."""
        kept = self._options.events
        reading = (
            spark.readStream.format("driftq-events")
            .option("url", self._options.url)
            .option("data", self._options.data)
            .option("startingPosition", after + 1)
            .option("maxEventsPerTrigger", BATCH_EVENTS)
        )
        if kept.objects_url is not None:
            reading = reading.option("objectsUrl", kept.objects_url)
        if kept.s3_endpoint is not None:
            reading = reading.option("s3Endpoint", kept.s3_endpoint)
        return reading.load()

    def begin(self) -> Resume:
        """Take over: every older publisher of this log is fenced from here on."""
        objects = open_event_objects(self._options.events)
        if objects is None:
            raise EventStoreUnusable("the publisher needs the event log's segments: install driftq[s3]")
        self._store = CheckpointStore(objects)
        server = Server(self._options.url)
        try:
            return begin(self._store, server, self._options.publisher, remembered=self._remembered())
        finally:
            server.close()

    def _remembered(self) -> Iterable[tuple[int, str]]:
        """The ids of the run before, when it was in this process."""
        return list(self._run.recent) if self._run is not None else []

    def _spark_checkpoint(self, epoch: int) -> str:
        """An empty folder for this start. The previous one may still be in use; older ones are not."""
        folder = Path(self._options.checkpoint(NAME))
        for left in folder.iterdir() if folder.exists() else ():
            if not left.name.startswith(f"{epoch - 1}-"):
                shutil.rmtree(left, ignore_errors=True)
        return str(folder / f"{epoch}-{uuid4().hex}")

    @staticmethod
    def _publish(run: PublisherRun, rows: DataFrame) -> None:
        """One micro-batch: each lane in one task, in log order."""
        from pyspark.sql import functions as sql

        lanes = run.checkpoint.lanes
        task: Any = run.task()
        lane = (sql.crc32(sql.col("aggregate_id").cast("binary")) % lanes).cast("int")
        reports = (
            rows.select(*SCHEMA.names)
            .withColumn(LANE, lane)
            .repartitionById(lanes, LANE)
            .sortWithinPartitions("position")
            .mapInArrow(task, REPORT_SCHEMA)
            .collect()
        )
        run.confirm([row.report for row in reports])


class PublisherRun:
    """From one start to its end. Confirms batches one after the other, on the query's own thread."""

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
        self.batches = 0

    def task(self) -> LaneTask:
        """The task of the next batch."""
        settings = self._options.publisher
        looks_back = self.checkpoint.position == self._resume.checkpoint.position
        return LaneTask(
            url=self._options.url,
            writer=self.checkpoint.publisher,
            epoch=self.checkpoint.epoch,
            confirmed=self.checkpoint.topics,
            sent_ids=self._resume.sent_ids if looks_back else frozenset(),
            chunk_events=min(settings.batch_events, settings.flush_events),
            patience_s=settings.flush_timeout_seconds,
            recent_max=settings.dedup_events_max,
        )

    def confirm(self, reports: Sequence[str]) -> None:
        """All tasks of a batch are done: move the checkpoint over it. Raises when one was refused."""
        decoded = [_decode(report) for report in reports]
        for report in decoded:
            if report.refusal is not None and report.refusal.replaced:
                raise PublisherReplaced(self.checkpoint.publisher, epoch=self.checkpoint.epoch)
            if report.refusal is not None:
                raise TopicBehind(report.refusal.text)
        position = max([self.checkpoint.position, *[report.position for report in decoded]])
        self.recent.extend(sorted(one for report in decoded for one in report.recent))
        self.appended += sum(report.appended for report in decoded)
        self.skipped += sum(report.skipped for report in decoded)
        self.batches += 1
        self._save(position, decoded)

    def _save(self, position: int, decoded: Sequence[Report]) -> None:
        settings = self._options.publisher
        topics = {topic: dict(lanes) for topic, lanes in self.checkpoint.topics.items()}
        for report in decoded:
            for topic, lanes in report.topics.items():
                topics.setdefault(topic, {}).update(lanes)
        now_ms = time.time_ns() // 1_000_000
        since_ms = now_ms - settings.lookback_seconds * 1_000
        marks = [mark for mark in self.checkpoint.marks if mark[0] >= since_ms]
        kept = settings.dedup_checkpoint_events_max
        self.checkpoint = msgspec.structs.replace(
            self.checkpoint,
            position=position,
            topics=topics,
            recent=list(self.recent)[-kept:] if kept else [],
            marks=[*marks[-_MARKS_MAX:], (now_ms, self.checkpoint.position)],
        )
        self._store.save(self.checkpoint)

"""Kafka → DriftQ: appends by position, which the server itself skips when it has them.

The writer is named by the Kafka topic's identity. A lane is a partition of it, and a position is an offset. A
run opens the writer's next epoch, so the server refuses a bridge that was replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from driftq.errors import LaneBehind, TopicExists, WriterFenced
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.credentials import NO_CREDENTIALS, Credentials
from driftq.model.options.pipeline import KAFKA, PipelineOptions
from driftq.model.topic import MAX_PARTITIONS
from driftq.model.wire.append import OpenWriter
from driftq.pipeline.bridge.batches import (
    NOTHING_READ,
    CopyReport,
    LaneOrder,
    divided,
    reports_of,
    require_accepted,
    skipped_ranges,
    summed,
)
from driftq.pipeline.bridge.messages import ENVELOPE, TRACEPARENT, to_driftq
from driftq.pipeline.bridge.route import BridgeRoute
from driftq.pipeline.publisher.lane_task import REPORT_SCHEMA, report_row
from driftq.publishing.lanes import LaneSender, Refusal
from driftq.transport.paths import topic_path
from driftq.transport.server import Server

if TYPE_CHECKING:
    import pyarrow as arrow
    from pyspark.sql import DataFrame

COLUMNS = ("partition", "offset", "key", "value", "envelope", "traceparent", "headers")


def writer_of(identity: str) -> str:
    """The name under which a bridge appends the messages of a Kafka topic."""
    return f"bridge-{identity}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToDriftqTask:
    """For `mapInArrow`: rows of some lanes in, one report out."""

    url: str
    topic: str
    writer: str
    epoch: int
    after: Mapping[int, int]
    """Of each lane the last offset that the DriftQ topic has: with less it was deleted or restored."""
    chunk: int
    patience_s: float
    credentials: Credentials = NO_CREDENTIALS

    def __call__(self, batches: Iterator[arrow.RecordBatch]) -> Iterator[arrow.RecordBatch]:
        yield report_row(self.copy(batches))

    def copy(self, batches: Iterator[arrow.RecordBatch]) -> CopyReport:
        server = Server(self.url, credentials=self.credentials, patience_s=self.patience_s)
        sender = LaneSender(
            server, writer=self.writer, epoch=self.epoch, chunk=self.chunk, confirmed={self.topic: self.after}
        )
        order = LaneOrder(self.after)
        report = CopyReport()
        try:
            for batch in batches:
                columns = [batch.column(name).to_pylist() for name in COLUMNS]
                for lane, offset, key, value, envelope, trace, headers in zip(*columns, strict=True):
                    order.follow(lane, offset)
                    message = to_driftq(
                        offset, key=key, value=value, envelope=envelope, traceparent=trace, headers=headers
                    )
                    sender.send(self.topic, lane, message)
            sender.flush()
        except (WriterFenced, LaneBehind) as refused:
            report.refusal = Refusal(isinstance(refused, WriterFenced), str(refused))
        finally:
            server.close()
        report.copied, report.skipped = sender.appended, sender.skipped
        report.lasts = sender.moved.get(self.topic, {})
        return report


class ToDriftqRun:
    """From one start to the next: it has the writer's newest epoch, and copies one batch after the other."""

    def __init__(
        self,
        options: PipelineOptions,
        route: BridgeRoute,
        *,
        writer: str,
        opened: OpenWriter,
        oldest: Mapping[int, int],
    ) -> None:
        """`oldest` are the first offsets of the Kafka topic's partitions."""
        self._options = options
        self._route = route
        self._writer = writer
        self._epoch = opened.epoch
        self._after = dict(opened.lanes)
        self._oldest = oldest

    @property
    def starting(self) -> dict[int, int]:
        """Of each partition that has been copied from, the next offset that is stored."""
        return {lane: max(after + 1, self._oldest.get(lane, 0)) for lane, after in self._after.items()}

    @property
    def removed(self) -> dict[int, tuple[int, int]]:
        """Offsets that retention removed before they were copied: the first, and the one after the last."""
        return skipped_ranges(self._after, self.starting)

    def copy(self, rows: DataFrame) -> CopyReport:
        """One batch of Spark's Kafka source; raises BridgeReplaced or TopicBehind."""
        from driftq.pipeline.transport.kafka_rows import header_text, text_of

        texts = rows.select(
            "partition",
            "offset",
            text_of("key").alias("key"),
            text_of("value").alias("value"),
            header_text(ENVELOPE).alias("envelope"),
            header_text(TRACEPARENT).alias("traceparent"),
            "headers",
        )
        task: Any = self.task()
        parts = divided(texts, lanes=max(1, len(self._oldest)))
        return self.confirm(reports_of(parts.mapInArrow(task, REPORT_SCHEMA).collect()))

    def confirm(self, reports: Sequence[CopyReport]) -> CopyReport:
        """All tasks of a batch are done: the next one follows. Raises when one was refused."""
        require_accepted(reports, route=str(self._route))
        for report in reports:
            self._after |= report.lasts
        return summed(reports)

    def task(self) -> ToDriftqTask:
        settings = self._options.publisher
        return ToDriftqTask(
            url=self._options.url,
            credentials=self._options.credentials,
            topic=self._route.target.topic,
            writer=self._writer,
            epoch=self._epoch,
            after={lane: after for lane, after in self._after.items() if after > NOTHING_READ},
            chunk=settings.batch_events,
            patience_s=settings.flush_timeout_seconds,
        )

    def close(self) -> None:
        """Nothing stays open."""


def begin_to_driftq(options: PipelineOptions, route: BridgeRoute) -> ToDriftqRun:
    """Take over: from here on the server refuses every older bridge on this route."""
    topic = route.source.topic
    with KafkaCluster(options.kafka) as cluster:
        oldest = {number: offset for (_, number), offset in cluster.beginning_offsets([topic]).items()}
        writer = writer_of(kafka_identity(cluster, topic))
    server = Server(options.url, credentials=options.credentials)
    try:
        _create(server, route.target.topic, partitions=min(len(oldest), MAX_PARTITIONS))
        opened = server.post(topic_path(route.target.topic, "/writers"), {"writer": writer}, OpenWriter)
    finally:
        server.close()
    return ToDriftqRun(options, route, writer=writer, opened=opened, oldest=oldest)


def kafka_identity(cluster: KafkaCluster, topic: str) -> str:
    """Cluster and topic id: a topic that is created again has another one. "" where there is none."""
    found = cluster.topic_ids([topic])
    return f"{KAFKA}/{cluster.cluster_id()}/{found[topic]}" if found else ""


def _create(server: Server, topic: str, *, partitions: int) -> None:
    try:
        server.post("/v1/topics", {"name": topic, "partitions": partitions}, object)
    except TopicExists:
        return  # It is used as it is.

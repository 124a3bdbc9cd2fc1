"""A bridge as a streaming query that may be killed at any time.

The target holds its progress: a run takes over there and reads from the positions that it finds. Spark's
checkpoint serves one run only.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from driftq.errors import InvalidArgument, TopicNotFound
from driftq.kafka.clients import require_kafka
from driftq.kafka.cluster import KafkaCluster
from driftq.model import TopicView
from driftq.model.options.pipeline import PipelineOptions
from driftq.model.wire.fields import NAME_MAX
from driftq.pipeline.bridge.route import BridgeRoute
from driftq.pipeline.bridge.to_driftq import ToDriftqRun, begin_to_driftq, kafka_identity, writer_of
from driftq.pipeline.bridge.to_kafka import ToKafkaRun, begin_to_kafka, copies_back
from driftq.pipeline.publisher.job import refuse_speculation
from driftq.pipeline.runtime.checkpoints import fresh_checkpoint
from driftq.pipeline.transport.driftq_topics import DriftqTransport
from driftq.pipeline.transport.kafka_topics import KafkaTransport
from driftq.pipeline.transport.port import TopicSubscription
from driftq.sinks import TopicPartition
from driftq.transport.paths import topic_path
from driftq.transport.server import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger("driftq.pipeline.bridge")

BATCH_MESSAGES = 50_000
"""Messages in one micro-batch."""
_EVERY = "200 milliseconds"
_CHECK_S = 10.0

BridgeRun = ToKafkaRun | ToDriftqRun


class Bridge:
    """A StreamJob. Run one for a route: a second takes over from the first."""

    needs_server = True

    def __init__(self, options: PipelineOptions, route: BridgeRoute) -> None:
        self._options = options
        self._route = route
        self._run: BridgeRun | None = None

    @property
    def name(self) -> str:
        return self._route.name

    @property
    def reads_kafka(self) -> bool:
        """Whether the session needs Spark's Kafka connector."""
        return self._route.reads_kafka

    def check(self) -> None:
        """Raise the error that would keep it from starting: no Kafka, no source, or a bridge in a circle."""
        require_kafka(self._options.kafka)
        with KafkaCluster(self._options.kafka, answer_s=_CHECK_S) as cluster:
            if self._route.reads_kafka:
                cluster.partitions(self._route.source.topic)
            self._refuse_circle(cluster)

    def start(self, spark: SparkSession, *, once: bool) -> StreamingQuery:
        """Take over from any other bridge on this route, and begin."""
        refuse_speculation(spark)
        self.close()
        run = self._run = self.begin()
        for lane, (first, start) in sorted(run.removed.items()):
            logger.warning(
                "%s: offsets %d to %d of partition %d are gone from %s: retention removed them before they "
                "were copied",
                self.name,
                first,
                start - 1,
                lane,
                self._route.source,
            )
        writing = (
            self.rows(spark, run)
            .writeStream.queryName(self.name)
            .option("checkpointLocation", fresh_checkpoint(self._options.checkpoint(self.name)))
            .foreachBatch(self._copy)
        )
        return (
            writing.trigger(availableNow=True) if once else writing.trigger(processingTime=_EVERY)
        ).start()

    def begin(self) -> BridgeRun:
        """Every older bridge on this route is fenced from here on."""
        if self._route.reads_kafka:
            return begin_to_driftq(self._options, self._route)
        view = self._driftq_topic(self._route.source.topic)
        if view is None:
            raise TopicNotFound(self._route.source.topic)
        return begin_to_kafka(self._options, self._route, view)

    def rows(self, spark: SparkSession, run: BridgeRun) -> DataFrame:
        """The source's messages from where the target ends."""
        topic = self._route.source.topic
        starting = {TopicPartition(topic, lane): offset for lane, offset in run.starting.items()}
        topics = TopicSubscription(topics=(topic,))
        reader = self.name[:NAME_MAX]
        if self._route.reads_kafka:
            return KafkaTransport(self._options).raw_stream(
                spark, topics, reader=reader, starting=starting, messages_max=BATCH_MESSAGES
            )
        transport = DriftqTransport(self._options)
        try:
            return transport.stream(
                spark, topics, reader=reader, starting=starting, messages_max=BATCH_MESSAGES, headers=True
            )
        finally:
            transport.close()

    def close(self) -> None:
        """Drop what the run holds, when no query is running."""
        if self._run is not None:
            self._run.close()
            self._run = None

    def _copy(self, rows: DataFrame, batch_id: int) -> None:
        assert self._run is not None  # The query was started with it.
        done = self._run.copy(rows)
        letters = f", {done.dead_letters} dead-lettered" if done.dead_letters else ""
        logger.info(
            "%s batch %d: %d copied, %d skipped%s", self.name, batch_id, done.copied, done.skipped, letters
        )

    def _refuse_circle(self, cluster: KafkaCluster) -> None:
        """Two bridges between the same topics would copy every message over and over."""
        ends = (self._route.source, self._route.target)
        on_driftq, on_kafka = ends[::-1] if self._route.reads_kafka else ends
        view = self._driftq_topic(on_driftq.topic)
        if view is None:
            if not self._route.reads_kafka:
                raise TopicNotFound(on_driftq.topic)
            return
        if self._route.reads_kafka:
            found = copies_back(self._options.kafka, view, on_kafka.topic)
        else:
            back = writer_of(kafka_identity(cluster, on_kafka.topic))
            found = any(one.writer == back for one in view.writers)
        if found:
            raise InvalidArgument(
                "--to",
                f"{self._route.target} is copied to {self._route.source}: a bridge back would copy each "
                "message over and over. Name another topic",
            )

    def _driftq_topic(self, topic: str) -> TopicView | None:
        server = Server(self._options.url, credentials=self._options.credentials)
        try:
            return server.get(topic_path(topic), TopicView)
        except TopicNotFound:
            return None
        finally:
            server.close()

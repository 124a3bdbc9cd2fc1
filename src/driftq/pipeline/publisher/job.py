"""The publisher as a streaming query: event log → lanes → topics, with its own checkpoint as the truth.

A start does not use Spark's checkpoint: every start gets an empty one, and the position to begin at comes
from our own, which moves only after the appends of every task of a batch are confirmed.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from driftq.errors import InvalidArgument
from driftq.model.options.pipeline import KAFKA, PipelineOptions
from driftq.pipeline.publisher.kafka.run import SparkKafkaRun
from driftq.pipeline.publisher.meter import Meter
from driftq.pipeline.publisher.run import SparkPublisherRun
from driftq.pipeline.source.waits import MAX_WAIT
from driftq.publishing.begin import begin_run
from driftq.publishing.kafka.run import check_kafka

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "publisher"
BATCH_EVENTS = 200_000
"""Events in one micro-batch, after which the checkpoint moves."""


class Publisher:
    """A StreamJob. Run one for an event log: a second takes over from the first."""

    name = NAME
    needs_server = True
    reads_transport = False

    def __init__(self, options: PipelineOptions) -> None:
        self._options = options
        self._run: SparkPublisherRun | SparkKafkaRun | None = None
        self._meter: Meter | None = None

    def start(self, spark: SparkSession, *, once: bool) -> StreamingQuery:
        """Take over from any other publisher of this log, and begin."""
        refuse_speculation(spark)
        earlier, run = self._run, self.begin()
        if earlier is not None:
            earlier.close()
        self._run = run
        folder = self._spark_checkpoint(run.checkpoint.epoch)
        writing = (
            self.events(spark, after=run.after)
            .writeStream.queryName(NAME)
            .option("checkpointLocation", folder)
            .foreachBatch(run)
        )
        query = (writing.trigger(availableNow=True) if once else writing).start()
        self._meter = Meter(run, interval_s=self._options.publisher.metrics_interval_seconds)
        self._meter.follow(query)
        return query

    def close(self) -> None:
        """Its query has ended: the log gets its last line, and the run drops what it holds."""
        if self._meter is not None:
            self._meter.close()
        if self._run is not None:
            self._run.close()

    def events(self, spark: SparkSession, *, after: int) -> DataFrame:
        """The event log after a position."""
        kept = self._options.events
        reading = (
            spark.readStream.format("driftq-events")
            .option("url", self._options.url)
            .option("data", self._options.data)
            .option("startingPosition", after + 1)
            .option("maxEventsPerTrigger", BATCH_EVENTS)
            .option("maxWait", MAX_WAIT)
        )
        if kept.objects_url is not None:
            reading = reading.option("objectsUrl", kept.objects_url)
        if kept.s3_endpoint is not None:
            reading = reading.option("s3Endpoint", kept.s3_endpoint)
        return reading.load()

    def check(self) -> None:
        """Raise the error that would keep it from starting, before Spark is."""
        if self._options.transport == KAFKA:
            check_kafka(self._options)

    def begin(self) -> SparkPublisherRun | SparkKafkaRun:
        """Take over: every older publisher of this log is fenced from here on."""
        return begin_run(
            self._options,
            remembered=self._remembered(),
            to_driftq=SparkPublisherRun,
            to_kafka=SparkKafkaRun,
        )

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


def refuse_speculation(spark: SparkSession) -> None:
    """Raise InvalidArgument: two copies of a lane's task at once would fence each other, over and over."""
    if spark.conf.get("spark.speculation", "false") == "true":
        raise InvalidArgument("spark.speculation", "this job needs a session without speculation")

"""A worker as a streaming query: `worker-<handler>`.

Each micro-batch is one task for each topic partition, which ends when each of its events is done,
dead-lettered or parked; only then does Spark commit the batch. An interrupted batch is run again, and finds
finished events in the registry.

The task of a missing event also runs the events that were parked after it. An event that an operator resolves
or requeues has no new message: a thread of the driver looks for such events regularly. It runs handlers and
no Spark.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from driftq.errors import InvalidArgument
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.worker.runtime import open_run
from driftq.pipeline.worker.spec import WorkerSpec
from driftq.pipeline.worker.store import WorkerStore
from driftq.pipeline.worker.task import ANSWER, COLUMNS, Task, run_task
from driftq.registry import Effect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger("driftq.pipeline.worker")

BATCH_EVENTS = 2_000
"""In one micro-batch: they are held in memory, and run again after a crash."""
POLL = "200 milliseconds"
SWEEP_S = 2.0


class WorkerJob:
    """Implements `StreamJob`."""

    needs_server = True

    def __init__(self, spec: WorkerSpec, options: PipelineOptions) -> None:
        self.spec = spec
        self.options = options
        self.counts: Counter[str] = Counter()
        """How many events had which outcome, since the start."""

    @property
    def name(self) -> str:
        return f"worker-{self.spec.name}"

    def check(self) -> None:
        """The registry must be reachable at the start. Raises DatabaseUnavailable, SchemaOutdated."""
        WorkerStore.open(self.options).close()

    def start(self, spark: SparkSession, *, once: bool) -> StreamingQuery:
        """Raises InvalidArgument for a handler that must not run, DatabaseUnavailable, SchemaOutdated."""
        self._refuse_what_is_unsafe(master=spark.sparkContext.master or "")
        self.check()
        self.take_up_parked()
        writer = self.rows(spark).writeStream.queryName(self.name).foreachBatch(self.handle_batch)
        writer = writer.option("checkpointLocation", self.options.checkpoint(self.name))
        if once:
            return writer.trigger(availableNow=True).start()
        query = writer.trigger(processingTime=POLL).start()
        threading.Thread(
            target=self._keep_sweeping, args=(query,), name=f"{self.name}-parked", daemon=True
        ).start()
        return query

    def handle_batch(self, rows: DataFrame, batch_id: int) -> None:
        """Returns when every event of the batch is settled or parked; may be repeated for the same batch."""
        # All rows of a topic partition go to one task, in order, however the source has cut them.
        cores = rows.sparkSession.sparkContext.defaultParallelism
        tasks = min(2 * cores, max(1, rows.rdd.getNumPartitions()))
        together = rows.repartition(tasks, "topic", "partition") if tasks > 1 else rows
        in_order = together.sortWithinPartitions("topic", "partition", "offset")
        counts: Counter[str] = Counter()
        for row in in_order.mapInArrow(self.task(), ANSWER).collect():
            counts[row.how] += row.events
        self.counts += counts
        told = ", ".join(f"{events} {how}" for how, events in sorted(counts.items()))
        logger.info("%s batch %d: %s", self.name, batch_id, told or "nothing")

    def task(self) -> Task:
        """The function of a task; it travels to Spark's workers."""
        return partial(run_task, spec=self.spec, options=self.options)

    def _refuse_what_is_unsafe(self, *, master: str) -> None:
        if self.options.registry.enabled:
            return
        switch = "ENABLE_PROCESSED_EVENT_REGISTRY=false"
        if self.spec.effect is not Effect.IDEMPOTENT:
            raise InvalidArgument(
                "effect",
                f"{switch} is for handlers declared idempotent; {self.spec.name!r} is {self.spec.effect}: "
                "switch the registry on",
            )
        if not master.startswith("local"):
            raise InvalidArgument(
                "master", f"with {switch} the guard is a file of this machine, and {master} is a cluster"
            )

    def rows(self, spark: SparkSession) -> DataFrame:
        """The stream of messages that `handle_batch` takes."""
        reader = spark.readStream.format("driftq").option("url", self.options.url)
        reader = reader.option("data", self.options.data).option("reader", self.name)
        reader = reader.option("maxOffsetsPerTrigger", BATCH_EVENTS)
        if self.spec.topic_pattern is not None:
            reader = reader.option("subscribePattern", self.spec.topic_pattern)
        else:
            reader = reader.option("subscribe", ",".join(self.spec.topics))
        return reader.load().select(*COLUMNS)

    def _keep_sweeping(self, query: StreamingQuery) -> None:
        pause = threading.Event()
        while not pause.wait(SWEEP_S) and _is_active(query):
            try:
                self.take_up_parked()
            except Exception:  # The thread has to go on: nothing else would look again.
                logger.exception("%s: could not run parked events", self.name)

    def take_up_parked(self) -> None:
        """Run, in the driver, events that were resolved, requeued or abandoned."""
        with open_run(self.spec, self.options) as run:
            run.run_parked()
        self.counts += run.counts


def _is_active(query: StreamingQuery) -> bool:
    try:
        return bool(query.isActive)
    except Exception:  # noqa: BLE001 - py4j has many ways to say that the session is closed.
        return False

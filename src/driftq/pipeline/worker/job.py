"""A worker as a streaming query: `worker-<handler>`.

Each micro-batch is divided into tasks by the hash of the aggregate, so that all cores work and the events of
an aggregate are in one task, in whatever partition of the topic they are. A message that is no event goes
with its topic and partition. The batch ends when each of its events is done, dead-lettered or parked; then
the driver moves the handler's positions in the registry's database, and Spark commits the batch. An
interrupted batch is run again, and finds finished events in the registry.

A run begins at the registry's positions. Spark's checkpoint serves only one run and the next one creates a
new one, so losing it loses nothing. A checkpoint of a version that stored no positions is used until there
are positions.

The task of a missing event also runs the events that were parked after it. An event that an operator resolves
or requeues has no new message: a thread of the driver looks for such events regularly. It runs handlers and
no Spark.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from driftq.effects.sinks import HandlerSinks
from driftq.errors import InvalidArgument
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.dead_letters.open import open_dead_letter_topics
from driftq.pipeline.dead_letters.relay import Relay, RelayThread
from driftq.pipeline.runtime.checkpoints import fresh_checkpoint
from driftq.pipeline.transport import identified, open_transport, resume_offsets
from driftq.pipeline.worker.runtime import open_run
from driftq.pipeline.worker.spec import WorkerSpec
from driftq.pipeline.worker.store import WorkerStore, shared_store
from driftq.pipeline.worker.task import ANSWER, COLUMNS, Task, run_task
from driftq.pipeline.worker.timing import OutageWait, SystemTiming
from driftq.registry import Effect
from driftq.registry.parking import AppliedPartition
from driftq.sinks import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

logger = logging.getLogger("driftq.pipeline.worker")

TASK_EVENTS_MIN = 500
"""Smaller tasks would cost more than they save."""
POLL = "200 milliseconds"
SWEEP_S = 2.0


class WorkerJob:
    """Implements `StreamJob`."""

    def __init__(self, spec: WorkerSpec, options: PipelineOptions) -> None:
        self.spec = spec
        self.options = options
        self.counts: Counter[str] = Counter()
        """How many events had which outcome, since the start."""
        self._relay: RelayThread | None = None
        self._transport = open_transport(options)
        self._identities: dict[str, str] = {}
        """Of the topics, as they were when the query started."""

    @property
    def name(self) -> str:
        return f"worker-{self.spec.name}"

    def check(self) -> None:
        """Transport, registry and sinks must be reachable. Raises an Unavailable, or SchemaOutdated."""
        open_transport(self.options).check()
        WorkerStore.open(self.options).close()
        with closing(HandlerSinks(self.spec.sinks)) as sinks:
            sinks.open()

    def start(self, spark: SparkSession, *, once: bool) -> StreamingQuery:
        """Raises InvalidArgument for a handler that must not run, DatabaseUnavailable, SchemaOutdated."""
        self._refuse_what_is_unsafe(master=spark.sparkContext.master or "")
        WorkerStore.open(self.options).close()
        self._start_relay(once=once)
        self.take_up_parked(everything=True)
        # Before anything is read: an offset counts for the topic that had the name then.
        self._identities = self._transport.identities(self.spec.subscription)
        applied = self.positions()
        rows = self.rows(spark, starting=resume_offsets(applied, self._identities))
        writer = rows.writeStream.queryName(self.name).foreachBatch(self.handle_batch)
        writer = writer.option("checkpointLocation", self._checkpoint(has_positions=bool(applied)))
        if once:
            return writer.trigger(availableNow=True).start()
        if not self._transport.waits(self.spec.subscription):
            writer = writer.trigger(processingTime=POLL)
        query = writer.start()
        threading.Thread(
            target=self._keep_sweeping, args=(query,), name=f"{self.name}-parked", daemon=True
        ).start()
        return query

    def handle_batch(self, rows: DataFrame, batch_id: int) -> None:
        """Returns when every event of the batch is settled or parked; may be repeated for the same batch."""
        last: dict[TopicPartition, int] = {}
        counts: Counter[str] = Counter()
        while unknown := self._run_tasks(rows, counts, last):
            for topic in unknown:
                self._identities[topic] = self._transport.late_identity(topic)
        self._advance(identified(last, self._identities, self._transport))
        self._count(counts)
        told = ", ".join(f"{events} {how}" for how, events in sorted(counts.items()))
        logger.info("%s batch %d: %s", self.name, batch_id, told or "nothing")

    def _run_tasks(self, rows: DataFrame, counts: Counter[str], last: dict[TopicPartition, int]) -> set[str]:
        """Run the batch and add up its answers; returns topics that appeared since the query started.

        Tasks with such a topic have run nothing.
        """
        unknown: set[str] = set()
        for row in self._by_aggregate(rows).mapInArrow(self.task(self._identities), ANSWER).collect():
            if row.how is not None:
                counts[row.how] += row.events
            elif row.next_offset is None:
                unknown.add(row.topic)
            else:
                place = TopicPartition(row.topic, row.partition)
                last[place] = max(last.get(place, -1), row.next_offset - 1)
        return unknown

    def _by_aggregate(self, rows: DataFrame) -> DataFrame:
        """The rows, those of an aggregate in one task; a message that is no event goes with its partition."""
        from pyspark.sql import functions as f

        cores = rows.sparkSession.sparkContext.defaultParallelism
        tasks = min(cores, max(1, self.options.registry.worker_batch_events // TASK_EVENTS_MIN))
        if tasks > 1:
            home = (
                f.coalesce("aggregate_type", "topic"),
                f.coalesce("aggregate_id", f.col("partition").cast("string")),
            )
            rows = rows.repartition(tasks, *home)
        return rows.select(*COLUMNS)

    def task(self, identities: Mapping[str, str]) -> Task:
        """The function of a task; it travels to Spark's workers."""
        return partial(run_task, spec=self.spec, options=self.options, identities=dict(identities))

    def positions(self) -> dict[TopicPartition, int]:
        """The last settled offset of every partition, under the topic's identity."""
        applied = shared_store(self.options, use="positions").applied.positions(self.spec.name)
        return {
            TopicPartition(place.topic, place.partition, place.identity): next_offset - 1
            for place, next_offset in applied.items()
        }

    def _advance(self, last: Mapping[TopicPartition, int]) -> None:
        applied = {
            AppliedPartition(place.identity, place.topic, place.partition): offset + 1
            for place, offset in last.items()
        }
        store = shared_store(self.options, use="positions")
        OutageWait(SystemTiming()).ask(lambda: store.applied.advance(self.spec.name, applied))

    def _checkpoint(self, *, has_positions: bool) -> str:
        folder = self.options.checkpoint(self.name)
        if not has_positions and Path(folder, "commits").exists():
            return folder
        return fresh_checkpoint(folder)

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

    def rows(self, spark: SparkSession, *, starting: Mapping[TopicPartition, int]) -> DataFrame:
        """The stream of messages that `handle_batch` takes."""
        return self._transport.stream(
            spark,
            self.spec.subscription,
            reader=self.name,
            starting=starting,
            messages_max=self.options.registry.worker_batch_events,
        ).select(*COLUMNS, "aggregate_type", "aggregate_id")

    def _keep_sweeping(self, query: StreamingQuery) -> None:
        pause = threading.Event()
        everything = False
        while not pause.wait(SWEEP_S) and _is_active(query):
            try:
                self.take_up_parked(everything=everything)
                everything = False
            except Exception:  # The thread has to go on: nothing else would look again.
                logger.exception("%s: could not run parked events", self.name)
                everything = True

    def take_up_parked(self, *, everything: bool = False) -> None:
        """Run, in the driver, events that were resolved, requeued or abandoned.

        `everything`: also events that became ready and that a worker which has ended did not take up.
        """
        with open_run(self.spec, self.options, in_task=False) as run:
            if everything:
                run.run_ready()
            run.run_returned()
        self._count(run.counts)

    def close(self) -> None:
        """When no query is running. Dead letters are published before."""
        if self._relay is not None:
            self._relay.finish()
            self._relay = None
        self._transport.close()

    def _start_relay(self, *, once: bool) -> None:
        """Publish dead letters from now on; earlier runs' relays stop."""
        self.close()
        store = shared_store(self.options, use="relay")
        rows, handler = store.dead_letters, self.spec.name
        relay = Relay(
            self.name,
            [rows.take_over(handler)],
            open_dead_letter_topics(self.options, patience_s=0),
            first=lambda: rows.record_missing(handler),
        )
        self._relay = RelayThread(relay, once=once)
        self._relay.start()

    def _count(self, counts: Counter[str]) -> None:
        self.counts += counts
        if counts["dead"] and self._relay is not None:
            self._relay.wake()


def _is_active(query: StreamingQuery) -> bool:
    try:
        return bool(query.isActive)
    except Exception:  # noqa: BLE001 - py4j has many ways to say that the session is closed.
        return False

"""A projection as a streaming query that may be killed at any time.

The targets hold its progress: a run takes over each of them, and reads from the smallest position that it
finds. Spark's checkpoint serves only one run and the next one creates a new one, so losing it loses nothing.
"""

from __future__ import annotations

import math
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from driftq.errors import ProjectionError, ProjectionFenced, ReadModelSwapped, Unavailable
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.projection.delivery import RetryBudget
from driftq.pipeline.projection.folds import LatestState
from driftq.pipeline.projection.projector import Projector, Target
from driftq.pipeline.runtime.causes import WORKER_LATE, cause_of
from driftq.pipeline.server import Server
from driftq.sinks import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from driftq.pipeline.projection.definition import Projection

_EVERY = "500 milliseconds"
_CHECKPOINTS_KEPT = 2
_OUTAGE_S = 20.0


class ProjectionJob:
    """One projection's query."""

    needs_server = True

    def __init__(self, projection: Projection, options: PipelineOptions) -> None:
        self.projection = projection
        self._options = options
        self._targets: list[Target] = []
        self._projector: Projector | None = None

    @property
    def name(self) -> str:
        return f"projection-{self.projection.name}"

    def check(self) -> None:
        """Its targets must be reachable at the start. Raises ReadModelUnavailable and similar errors."""
        for sink in self.projection.targets(self._options):
            sink.connect(self.projection.name).close()

    @property
    def failure(self) -> ProjectionError | Unavailable | None:
        """Why the last run had to end, if it had to, as opposed to a transient failure."""
        return self._projector.failure if self._projector else None

    def start(self, spark: SparkSession, *, once: bool) -> StreamingQuery:
        """Take over from every other run. A run that was itself replaced raises ProjectionFenced again.

        Otherwise two runs that are both restarted would take over from each other endlessly.
        """
        if isinstance(self.failure, ProjectionFenced):
            raise self.failure
        targets = self._take_over()
        # The runner restarts a continuous query; one that ends must wait itself.
        retries = self._options.registry.projection_retries_max
        retry_budget = RetryBudget(retries=retries, outage_s=math.inf if once else _OUTAGE_S)
        self._projector = make_projector(self.projection, targets, retry_budget)
        reading = spark.readStream.format("driftq").options(
            **source_options(self.projection, self._options),
            reader=self.name,
            maxOffsetsPerTrigger=str(self.projection.batch_max),
            startingOffsets=self._starting(targets),
        )
        writing = (
            reading.load()
            .writeStream.queryName(self.name)
            .option("checkpointLocation", self._fresh_checkpoint())
            .foreachBatch(self._projector)
        )
        trigger = writing.trigger(availableNow=True) if once else writing.trigger(processingTime=_EVERY)
        return trigger.start()

    def close(self) -> None:
        """Close the targets, when no query is running."""
        for target in self._targets:
            target.model.close()
        self._targets = []

    def _take_over(self) -> list[Target]:
        self.close()
        for sink in self.projection.targets(self._options):
            model = sink.connect(self.projection.name)
            self._targets.append(Target(model, model.take_over()))
        return self._targets

    def _starting(self, targets: Iterable[Target]) -> str:
        """The next offset of each partition in the target that is furthest behind; others skip the rest."""
        server = Server(self._options.url)
        try:
            there = set(server.get("/v1/topics", dict[str, list[str]])["topics"])
        finally:
            server.close()
        following = smallest([target.model.positions() for target in targets])
        return offsets_text({place: at + 1 for place, at in following.items() if place.topic in there})

    def _fresh_checkpoint(self) -> str:
        """A folder for this run; a few earlier ones stay: a fenced run may still use its own."""
        folder = Path(self._options.checkpoint(self.name))
        earlier = sorted(folder.glob("*/"), key=lambda path: path.stat().st_mtime)
        for path in earlier[:-_CHECKPOINTS_KEPT]:
            shutil.rmtree(path, ignore_errors=True)
        return str(folder / uuid.uuid4().hex)


def run_job(job: ProjectionJob, spark: SparkSession, *, once: bool) -> None:
    """Runs to its end; continues after a rebuild and after an outage."""
    try:
        while not _run_to_end(job, spark, once=once):
            pass
    finally:
        job.close()


def _run_to_end(job: ProjectionJob, spark: SparkSession, *, once: bool) -> bool:
    """False if it has to start again."""
    query = job.start(spark, once=once)
    try:
        query.awaitTermination()
    except Exception as failure:
        if isinstance(job.failure, ReadModelSwapped | Unavailable):
            return False
        if job.failure is not None:
            raise job.failure from None
        if cause_of(failure).kind == WORKER_LATE:
            return False
        raise
    return True


def make_projector(projection: Projection, targets: list[Target], retry_budget: RetryBudget) -> Projector:
    return Projector(
        projection.name,
        targets,
        fold=projection.fold,
        keyed=projection.key == "key",
        retry_budget=retry_budget,
    )


def source_options(projection: Projection, options: PipelineOptions) -> dict[str, str]:
    told = {**projection.source, "url": options.url, "data": options.data}
    if isinstance(projection.fold, LatestState):
        told["newestBy"] = projection.key  # Superseded messages need not reach Spark.
    return told


def smallest(positions: list[dict[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """The partitions that every target has, each at the lowest offset."""
    known = set(positions[0]).intersection(*positions[1:])
    return {place: min(each[place] for each in positions) for place in known}


def offsets_text(offsets: dict[TopicPartition, int]) -> str:
    """In the form of `startingOffsets`; a partition that is not named is read from its start."""
    by_topic: dict[str, dict[str, int]] = {}
    for place, offset in offsets.items():
        by_topic.setdefault(place.topic, {})[str(place.partition)] = offset
    return msgspec.json.encode(by_topic).decode()

"""A projection as a streaming query that may be killed at any time.

The targets hold its progress: a run takes over each of them, and reads from the smallest position that it
finds. Spark's checkpoint serves only one run and the next one creates a new one, so losing it loses nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from driftq.errors import (
    OffsetsStartOver,
    ProjectionError,
    ProjectionFenced,
    ReadModelSwapped,
    TopicAppeared,
    Unavailable,
)
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.dead_letters.open import open_dead_letter_topics
from driftq.pipeline.dead_letters.projection import ProjectionDeadLetters
from driftq.pipeline.projection.delivery import RetryBudget
from driftq.pipeline.projection.folds import LatestState
from driftq.pipeline.projection.projector import Identify, Projector, Target
from driftq.pipeline.runtime.causes import WORKER_LATE, cause_of
from driftq.pipeline.runtime.checkpoints import fresh_checkpoint
from driftq.pipeline.runtime.job import OnOutage
from driftq.pipeline.source.pinned import PinnedEnd
from driftq.pipeline.transport import identified, open_transport, resume_offsets, topics_started_over
from driftq.sinks import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from driftq.pipeline.projection.definition import Projection

_EVERY = "500 milliseconds"
_OUTAGE_S = 20.0


class ProjectionJob:
    """One projection's query."""

    def __init__(self, projection: Projection, options: PipelineOptions) -> None:
        self.projection = projection
        self._options = options
        self.counts: Counter[str] = Counter()
        """`dead` letters and `outages` of targets, since the start."""
        self.on_outage: OnOutage = lambda _: None
        self._targets: list[Target] = []
        self._projector: Projector | None = None
        self._dead_letters: ProjectionDeadLetters | None = None
        self._transport = open_transport(options)

    @property
    def name(self) -> str:
        return f"projection-{self.projection.name}"

    @property
    def addresses(self) -> list[str]:
        """Of its targets, without passwords; those of the last start."""
        return [target.model.address for target in self._targets]

    def check(self) -> None:
        """Its transport and targets must be reachable at the start. Raises an Unavailable."""
        self._transport.check()
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
        retry_budget = RetryBudget(
            retries=retries,
            outage_s=math.inf if once else _OUTAGE_S,
            counts=self.counts,
            on_outage=self.on_outage,
        )
        # Before anything is read: an offset counts for the topic that had the name then.
        identities = self._transport.identities(self.projection.subscription)
        applied = [target.model.positions() for target in targets]
        if self.projection.key == "key":
            for topic in sorted(set().union(*(topics_started_over(each, identities) for each in applied))):
                raise OffsetsStartOver(topic, projection=self.projection.name)
        self._projector = make_projector(
            self.projection,
            targets,
            retry_budget,
            identify=partial(identified, identities=identities, transport=self._transport),
            dead_letters=self._open_dead_letters(targets, identities, retries=retries, once=once),
        )
        messages = self._transport.stream(
            spark,
            self.projection.subscription,
            reader=self.name,
            starting=smallest([resume_offsets(each, identities) for each in applied]),
            messages_max=self.projection.batch_max,
            newest_by=newest_by(self.projection),
            identities=identities,
        )
        writing = (
            messages.writeStream.queryName(self.name)
            .option("checkpointLocation", fresh_checkpoint(self._options.checkpoint(self.name)))
            .foreachBatch(self._projector)
        )
        if once:
            writing = writing.trigger(availableNow=True)
        elif not self._transport.waits(self.projection.subscription):
            writing = writing.trigger(processingTime=_EVERY)
        return writing.start()

    def close(self) -> None:
        """Close the targets, when no query is running. Dead letters are published before."""
        if self._dead_letters is not None:
            self._dead_letters.close()
            self._dead_letters = None
        for target in self._targets:
            target.model.close()
        self._targets = []
        self._transport.close()

    def _take_over(self) -> list[Target]:
        self.close()
        for sink in self.projection.targets(self._options):
            model = sink.connect(self.projection.name)
            self._targets.append(Target(model, model.take_over()))
        return self._targets

    def _open_dead_letters(
        self, targets: list[Target], identities: dict[str, str], *, retries: int, once: bool
    ) -> ProjectionDeadLetters:
        topics = open_dead_letter_topics(self._options)
        dead_letters = ProjectionDeadLetters(
            topics, identities=identities, retries=retries, counts=self.counts
        )
        sinks = self.projection.targets(self._options)
        dead_letters.start_relay(
            self.projection.name,
            zip(sinks, (target.writer_epoch for target in targets), strict=True),
            open_dead_letter_topics(self._options, patience_s=0),
            once=once,
        )
        self._dead_letters = dead_letters
        return dead_letters


def run_job(job: ProjectionJob, spark: SparkSession, *, once: bool) -> None:
    """Runs to its end; continues after a rebuild and after an outage."""
    pinned = PinnedEnd()
    try:
        while not _run_to_end(job, spark, once=once, pinned=pinned):
            pass
    finally:
        job.close()


def _run_to_end(job: ProjectionJob, spark: SparkSession, *, once: bool, pinned: PinnedEnd) -> bool:
    """False if it has to start again."""
    query = job.start(spark, once=once)
    try:
        query.awaitTermination()
    except Exception as failure:
        if isinstance(job.failure, ReadModelSwapped | Unavailable):
            return False
        if job.failure is not None:
            raise job.failure from None
        if cause_of(failure).kind in (WORKER_LATE, TopicAppeared.__name__):
            return False
        raise
    return pinned.reached_by(query)


def make_projector(
    projection: Projection,
    targets: list[Target],
    retry_budget: RetryBudget,
    *,
    identify: Identify,
    dead_letters: ProjectionDeadLetters,
) -> Projector:
    return Projector(
        projection.name,
        targets,
        fold=projection.fold,
        keyed=projection.key == "key",
        retry_budget=retry_budget,
        identify=identify,
        dead_letters=dead_letters,
    )


def newest_by(projection: Projection) -> str | None:
    """What supersedes a message, if anything does: such messages need not reach Spark."""
    return projection.key if isinstance(projection.fold, LatestState) else None


def smallest(positions: list[dict[TopicPartition, int]]) -> dict[TopicPartition, int]:
    """The partitions that every target has, each at the lowest offset; targets ahead of it skip the rest."""
    known = set(positions[0]).intersection(*positions[1:])
    return {place: min(each[place] for each in positions) for place in known}

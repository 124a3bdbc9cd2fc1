"""Rebuilding a read model beside the current one, and then swapping the two.

The positions from which the stream will continue are pinned first. Everything up to there is folded into a
second read model without readers; one transaction then swaps the two with their positions. If a rebuild is
killed before that, the old read model keeps serving and the next rebuild starts from the beginning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from driftq.model.options.pipeline import KAFKA, PipelineOptions
from driftq.pipeline.dead_letters.open import open_dead_letter_topics
from driftq.pipeline.dead_letters.projection import ProjectionDeadLetters
from driftq.pipeline.projection.delivery import RetryBudget
from driftq.pipeline.projection.job import make_projector
from driftq.pipeline.projection.projector import Target
from driftq.pipeline.runtime.job import OnOutage, ReportProgress
from driftq.sinks import Application, TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from driftq.pipeline.projection.definition import Projection


@dataclass(frozen=True, slots=True)
class RebuildPiece:
    """About `messages` messages that are folded together."""

    messages: int
    load: Callable[[SparkSession], DataFrame]


@dataclass(frozen=True, slots=True)
class RebuildInput:
    """The history of a projection's topics, and where the stream continues after it."""

    positions: Mapping[TopicPartition, int]
    """The last offset of each partition that the pieces contain for certain."""
    pieces: Sequence[RebuildPiece]


class RebuildJob:
    """The rebuild of one projection."""

    needs_server = True

    def __init__(self, projection: Projection, options: PipelineOptions) -> None:
        self.projection = projection
        self._options = options
        self.on_outage: OnOutage = lambda _: None
        self._retry_budget = RetryBudget(
            retries=options.registry.projection_retries_max,
            outage_s=math.inf,
            on_outage=self._say_outage,
        )

    def _say_outage(self, problem: str | None) -> None:
        self.on_outage(problem)  # The runner sets it after this job was made.

    @property
    def name(self) -> str:
        return f"rebuild-{self.projection.name}"

    def run(self, spark: SparkSession, report: ReportProgress) -> None:
        """Raises MessagesGone when the first messages exist no longer, and what `targets` raises."""
        sinks = self.projection.targets(self._options)
        history = self._history(spark)
        live = [sink.connect(self.projection.name) for sink in sinks]
        try:
            fresh = [model.beside() for model in live]
            targets = [Target(model, model.take_over()) for model in fresh]
            with closing(self._dead_letters(history)) as dead_letters:
                self._fill(spark, history.pieces, targets, report, dead_letters)
            reached = Application(positions=history.positions)
            for model, target in zip(live, targets, strict=True):
                self._retry_budget.outlast(partial(target.model.apply, reached, target.writer_epoch))
                self._retry_budget.outlast(partial(model.swap, target.writer_epoch))  # Readers may delay it.
                report(f"{self.projection.name}: swapped in {model.address}")
        finally:
            for model in live:
                model.close()

    def _dead_letters(self, history: RebuildInput) -> ProjectionDeadLetters:
        identities = {place.topic: place.identity for place in history.positions}
        topics = open_dead_letter_topics(self._options)
        return ProjectionDeadLetters(topics, identities=identities, retries=self._retry_budget.retries)

    def _history(self, spark: SparkSession) -> RebuildInput:
        if self._options.transport == KAFKA:
            from driftq.pipeline.projection.kafka_history import kafka_history

            return kafka_history(self.projection, self._options)
        from driftq.pipeline.projection.topic_history import topic_history

        alone = str(spark.sparkContext.master).startswith("local")
        return topic_history(self.projection, self._options, tasks_see_files=alone)

    def _fill(
        self,
        spark: SparkSession,
        pieces: Sequence[RebuildPiece],
        targets: list[Target],
        report: ReportProgress,
        dead_letters: ProjectionDeadLetters,
    ) -> None:
        # The pinned positions are applied before the swap, and no others.
        projector = make_projector(
            self.projection,
            targets,
            self._retry_budget,
            identify=lambda _: {},
            dead_letters=dead_letters,
        )
        done, total = 0, sum(piece.messages for piece in pieces)
        report(f"{self.projection.name}: {total:,} messages in {len(pieces)} slices")
        for piece in pieces:
            projector.apply(piece.load(spark))
            done += piece.messages
            report(
                f"{self.projection.name}: {done:,} of {total:,} messages ({100 * done // max(total, 1)} %)"
            )

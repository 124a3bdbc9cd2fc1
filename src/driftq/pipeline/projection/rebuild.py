"""Rebuilding a read model from the topics, beside the current one, and then swapping the two.

The end of every partition is pinned first. Everything up to there is folded into a second read model without
readers; one transaction then swaps the two with their positions, and the stream continues from the pinned
end. If a rebuild is killed before that, the old read model keeps serving and the next rebuild starts from the
beginning.
"""

from __future__ import annotations

import math
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from driftq.errors import MessagesGone
from driftq.model import TopicView
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.projection.delivery import RetryBudget
from driftq.pipeline.projection.job import make_projector, offsets_text, source_options
from driftq.pipeline.projection.projector import Target
from driftq.pipeline.projection.slices import Slice, slices_of
from driftq.pipeline.runtime.job import ReportProgress
from driftq.pipeline.server import Server
from driftq.pipeline.source.options import TopicSourceOptions
from driftq.pipeline.source.topics import Topics
from driftq.sinks import Application, TopicPartition
from driftq.storage.address import read_instance
from driftq.tables.reader import TableFile, read_table
from driftq.transport.paths import topic_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from driftq.pipeline.projection.definition import Projection


class RebuildJob:
    """The rebuild of one projection."""

    needs_server = True

    def __init__(self, projection: Projection, options: PipelineOptions) -> None:
        self.projection = projection
        self._options = options
        self._retry_budget = RetryBudget(retries=options.registry.projection_retries_max, outage_s=math.inf)

    @property
    def name(self) -> str:
        return f"rebuild-{self.projection.name}"

    def run(self, spark: SparkSession, report: ReportProgress) -> None:
        """Raises MessagesGone when the topics no longer hold their first messages."""
        pinned = self._pinned()
        slices = self._slices(pinned)
        live = [sink.connect(self.projection.name) for sink in self.projection.targets(self._options)]
        try:
            fresh = [model.beside() for model in live]
            targets = [Target(model, model.take_over()) for model in fresh]
            self._fill(spark, slices, targets, report)
            reached = Application(positions=_ends(pinned))
            for model, target in zip(live, targets, strict=True):
                self._retry_budget.outlast(partial(target.model.apply, reached, target.writer_epoch))
                self._retry_budget.outlast(partial(model.swap, target.writer_epoch))  # Readers may delay it.
                report(f"{self.projection.name}: swapped in {model.address}")
        finally:
            for model in live:
                model.close()

    def _slices(self, pinned: list[TopicView]) -> list[Slice]:
        return [
            piece
            for view in pinned
            for piece in slices_of(view, self._table(view.name), messages_max=self.projection.batch_max)
        ]

    def _fill(
        self, spark: SparkSession, slices: list[Slice], targets: list[Target], report: ReportProgress
    ) -> None:
        projector = make_projector(self.projection, targets, self._retry_budget)
        done, total = 0, sum(piece.messages for piece in slices)
        report(f"{self.projection.name}: {total:,} messages in {len(slices)} slices")
        for piece in slices:
            projector.apply(self._read(spark, piece))
            done += piece.messages
            report(
                f"{self.projection.name}: {done:,} of {total:,} messages ({100 * done // max(total, 1)} %)"
            )

    def _pinned(self) -> list[TopicView]:
        """The topics as they are now."""
        server = Server(self._options.url)
        try:
            pattern = self.projection.topic_pattern
            names = self.projection.topics
            if pattern is not None:
                every = server.get("/v1/topics", dict[str, list[str]])["topics"]
                names = [name for name in every if re.fullmatch(pattern, name)]
            views = [server.get(topic_path(name), TopicView) for name in names]
        finally:
            server.close()
        for view in views:
            # The topic's first offset still exists, in any partition.
            filled = [one.first_offset for one in view.partitions if one.messages]
            oldest = min(filled, default=max(one.next_offset for one in view.partitions))
            if oldest > view.start_offset:
                raise MessagesGone(view.name, oldest=oldest, projection=self.projection.name)
        return views

    def _table(self, topic: str) -> list[TableFile]:
        """The files of a topic's table, where the server's folder is readable; by partition and offset."""
        topics = Topics(TopicSourceOptions(url=self._options.url, data=self._options.data, topics=(topic,)))
        try:
            instance = topics.spans(topic).instance
        finally:
            topics.close()
        ours = bool(instance) and read_instance(self._options.data) == instance
        manifest = read_table(self._folder(topic)) if ours else None
        found = manifest.files if manifest else []
        return sorted(found, key=lambda file: (file.partition, file.first_offset))

    def _folder(self, topic: str) -> Path:
        return Path(self._options.data) / "tables" / topic

    def _read(self, spark: SparkSession, piece: Slice) -> DataFrame:
        if piece.files:
            rows = spark.read.parquet(*(str(self._folder(piece.topic) / name) for name in piece.files))
            ends = [f"(partition = {number} AND offset < {end})" for number, end in piece.ends.items()]
            return rows.where(" OR ".join(ends))
        starts = {
            TopicPartition(piece.topic, number): start for number, start in (piece.starts or {}).items()
        }
        ends_at = {TopicPartition(piece.topic, number): end for number, end in piece.ends.items()}
        options = source_options(self.projection, self._options) | {"subscribe": piece.topic}
        options.pop("subscribePattern", None)
        reading = spark.read.format("driftq").options(
            **options, startingOffsets=offsets_text(starts), endingOffsets=offsets_text(ends_at)
        )
        return reading.load()


def _ends(pinned: list[TopicView]) -> dict[TopicPartition, int]:
    """The last offset before each pinned end."""
    return {
        TopicPartition(view.name, one.partition): one.next_offset - 1
        for view in pinned
        for one in view.partitions
        if one.next_offset
    }

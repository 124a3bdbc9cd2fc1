"""The history of DriftQ's topics for a rebuild: every message up to the ends at its start.

Messages in the files of a topic's table are read from there where the server's folder is readable, and the
rest from the server. That the driver can read the folder says nothing about the machines of a cluster: there
every message comes from the server.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from driftq.errors import MessagesGone
from driftq.model import TopicView
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.projection.job import newest_by
from driftq.pipeline.projection.rebuild import RebuildInput, RebuildPiece
from driftq.pipeline.projection.slices import Slice, slices_of
from driftq.pipeline.source.options import TopicSourceOptions
from driftq.pipeline.source.topics import Topics
from driftq.pipeline.transport.driftq_topics import identity_of, offsets_text
from driftq.sinks import TopicPartition
from driftq.storage.address import read_instance
from driftq.tables.reader import TableFile, read_table
from driftq.transport.paths import topic_path
from driftq.transport.server import Server

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from driftq.pipeline.projection.definition import Projection


def topic_history(
    projection: Projection, options: PipelineOptions, *, tasks_see_files: bool = True
) -> RebuildInput:
    """Raises MessagesGone when a topic no longer holds its first messages.

    `tasks_see_files`: Spark's tasks run on this machine.
    """
    views = _pinned(projection, options)
    slices = [
        piece
        for view in views
        for piece in slices_of(
            view,
            _table(options, view.name) if tasks_see_files else (),
            messages_max=projection.batch_max,
        )
    ]
    superseding = newest_by(projection)
    pieces = [
        RebuildPiece(piece.messages, partial(_read, piece=piece, options=options, superseding=superseding))
        for piece in slices
    ]
    return RebuildInput(_ends(views), pieces)


def _pinned(projection: Projection, options: PipelineOptions) -> list[TopicView]:
    """The topics as they are now."""
    server = Server(options.url, credentials=options.credentials)
    try:
        names = projection.topics
        if projection.topic_pattern is not None:
            every = server.get("/v1/topics", dict[str, list[str]])["topics"]
            names = [name for name in every if projection.subscription.matches(name)]
        views = [server.get(topic_path(name), TopicView) for name in names]
    finally:
        server.close()
    for view in views:
        # The topic's first offset still exists, in any partition.
        filled = [one.first_offset for one in view.partitions if one.messages]
        oldest = min(filled, default=max(one.next_offset for one in view.partitions))
        if oldest > view.start_offset:
            raise MessagesGone(view.name, oldest=oldest, projection=projection.name)
    return views


def _table(options: PipelineOptions, topic: str) -> list[TableFile]:
    """The files of a topic's table, where the server's folder is readable; by partition and offset."""
    topics = Topics(
        TopicSourceOptions(
            url=options.url, data=options.data, credentials=options.credentials, topics=(topic,)
        )
    )
    try:
        instance = topics.spans(topic).instance
    finally:
        topics.close()
    ours = bool(instance) and read_instance(options.data) == instance
    manifest = read_table(_folder(options, topic)) if ours else None
    found = manifest.files if manifest else []
    return sorted(found, key=lambda file: (file.partition, file.first_offset))


def _folder(options: PipelineOptions, topic: str) -> Path:
    return Path(options.data) / "tables" / topic


def _read(
    spark: SparkSession, *, piece: Slice, options: PipelineOptions, superseding: str | None
) -> DataFrame:
    if piece.files:
        rows = spark.read.parquet(*(str(_folder(options, piece.topic) / name) for name in piece.files))
        ends = [f"(partition = {number} AND offset < {end})" for number, end in piece.ends.items()]
        return rows.where(" OR ".join(ends))
    starts = {TopicPartition(piece.topic, number): start for number, start in (piece.starts or {}).items()}
    ends_at = {TopicPartition(piece.topic, number): end for number, end in piece.ends.items()}
    wanted = {
        "subscribe": piece.topic,
        "url": options.url,
        "data": options.data,
        "startingOffsets": offsets_text(starts),
        "endingOffsets": offsets_text(ends_at),
    }
    if superseding is not None:
        wanted["newestBy"] = superseding
    return spark.read.format("driftq").options(**wanted).load()


def _ends(pinned: list[TopicView]) -> dict[TopicPartition, int]:
    """The last offset before each pinned end."""
    return {
        TopicPartition(view.name, one.partition, identity_of(view)): one.next_offset - 1
        for view in pinned
        for one in view.partitions
        if one.next_offset
    }

"""The writers that Spark runs: tasks stage or append, the driver commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import msgspec
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from driftq.errors import InvalidArgument
from driftq.eventstore.objects import S3Access, open_objects
from driftq.model import Envelope
from driftq.model.wire.append import PositionedMessage
from driftq.pipeline.sink.options import TEXT_COLUMNS, SinkOptions
from driftq.pipeline.sink.staging import Staging, checked
from driftq.pipeline.spark.compat import StreamArrowWriter, arrow_batches
from driftq.pipeline.spark.unpacking import SaysWhatIsMissing
from driftq.publishing.lanes import LaneSender
from driftq.transport.server import Server

if TYPE_CHECKING:
    import pyarrow as arrow

CHUNK_MESSAGES = 1_000
LANES_MAX = 65_536
_INDEX_BITS = 32
"""Of a position: the batch above them, the row's index in the batch below."""

_decode_envelope = msgspec.json.Decoder(Envelope).decode


@dataclass
class Staged(WriterCommitMessage):
    """The files that one task has staged."""

    names: list[str]


class StreamSink(SaysWhatIsMissing, StreamArrowWriter):
    """A streaming query's rows, each once by query and batch."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        if options.checkpoint is None:
            raise InvalidArgument(
                "checkpointLocation", 'a stream into a topic needs option("checkpointLocation", …)'
            )

    def write(self, iterator: Iterator[Any]) -> Staged:
        batches = arrow_batches(iterator, TEXT_COLUMNS)
        return Staged(self._staging().stage(batches, topic=self._options.topic))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staging = self._staging()
        names = staging.publish(batchId, _names(messages))
        send(self._options, self._writer(), staging.rows(names), first=batchId << _INDEX_BITS)
        staging.clean(before=batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Nothing to undo: the next committed batch removes the staged files."""

    def _staging(self) -> Staging:
        place = self._options.staging or f"{self._options.checkpoint}/driftq-sink"
        return Staging(place, self._writer(), s3_endpoint=self._options.s3_endpoint)

    def _writer(self) -> str:
        options = self._options
        return options.writer or f"query-{query_id(str(options.checkpoint), s3_endpoint=options.s3_endpoint)}"


class StagedBatchSink(SaysWhatIsMissing, DataSourceArrowWriter):
    """A batch with a name: run again with the same name and location, it adds nothing."""

    def __init__(self, options: SinkOptions, writer: str) -> None:
        if options.staging is None:
            raise InvalidArgument(
                "stagingLocation", "a writer that Spark may retry needs a location that outlives it"
            )
        self._options = options
        self._writer = writer
        self._place = options.staging

    def write(self, iterator: Iterator[arrow.RecordBatch]) -> Staged:
        return Staged(self._staging().stage(iterator, topic=self._options.topic))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        staging = self._staging()
        names = staging.publish(0, _names(messages))
        send(self._options, self._writer, staging.rows(names), first=0)
        staging.clean(before=0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing to undo: the next run continues from the manifest, or stages again."""

    def _staging(self) -> Staging:
        return Staging(self._place, self._writer, s3_endpoint=self._options.s3_endpoint)


class BatchSink(SaysWhatIsMissing, DataSourceArrowWriter):
    """A batch without a name: every task appends its rows on a lane of its own.

    A task that Spark runs again skips the messages that it has sent. A job that fails leaves its messages.
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._writer = f"batch-{uuid4().hex}"  # Made in the driver: all tasks, and their repeats, share it.

    def write(self, iterator: Iterator[arrow.RecordBatch]) -> WriterCommitMessage:
        context: Any = TaskContext.get()
        lane = context.partitionId()
        if lane >= LANES_MAX:
            raise InvalidArgument("partitions", f"more than {LANES_MAX} tasks write: coalesce the rows first")
        rows = (checked(batch, topic=self._options.topic) for batch in iterator)
        send(self._options, self._writer, rows, first=0, lane=lane, epoch=0)
        return WriterCommitMessage()

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is left to do."""

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Appended messages cannot be removed."""


def send(
    options: SinkOptions,
    writer: str,
    rows: Iterable[arrow.RecordBatch],
    *,
    first: int,
    lane: int = 0,
    epoch: int | None = None,
) -> None:
    """Append rows with consecutive positions; without an epoch the next one of each topic is taken."""
    server = Server(options.url, credentials=options.credentials)
    sender = LaneSender(
        server, writer=writer, epoch=epoch, chunk=CHUNK_MESSAGES, partitions=options.partitions
    )
    position = first
    try:
        for batch in rows:
            for key, value, envelope, topic in zip(*batch.to_pydict().values(), strict=True):
                given = None if envelope is None else _decode_envelope(envelope)
                sender.send(topic, lane, PositionedMessage(position, value, key or "", given))
                position += 1
        sender.flush()
    finally:
        server.close()


def query_id(checkpoint: str, *, s3_endpoint: str | None = None) -> str:
    """Spark's name for everything that is done under one checkpoint."""
    parts = urlsplit(checkpoint)
    if parts.scheme == "file":
        content = (Path(unquote(parts.path)) / "metadata").read_bytes()
    else:
        content = open_objects(checkpoint, access=S3Access(endpoint=s3_endpoint)).read("metadata")
    return msgspec.json.decode(content, type=dict[str, str])["id"]


def _names(messages: Iterable[WriterCommitMessage | None]) -> list[str]:
    return [name for message in messages if isinstance(message, Staged) for name in message.names]

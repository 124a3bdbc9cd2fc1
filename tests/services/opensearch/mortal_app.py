"""An app whose projection writes to OpenSearch and waits at a point until it is killed.

The environment names the server, the point, and the file that says that the point is reached.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from driftq.pipeline import App, Projection
from driftq.sinks import Capabilities, StagedBatch, StagedCommit, TaskWriter, TopicPartition, WriterEpoch
from driftq.sinks.documents import DocumentReadModel
from driftq.sinks.opensearch import OpenSearchSink

BEFORE_WRITE, BEFORE_OFFSET_COMMIT, AFTER_WRITE = "before write", "before offset commit", "after write"
POINTS = (BEFORE_WRITE, BEFORE_OFFSET_COMMIT, AFTER_WRITE)
NAME = "lights"
TOPIC = "events.mortal"


def reach(point: str) -> None:
    if os.environ["MORTAL_POINT"] == point:
        Path(os.environ["MORTAL_MARK"]).write_text("here")
        threading.Event().wait()


class DeadlyPositions(Mapping[TopicPartition, int]):
    """Fatal to look at: the tasks have written all documents by then, and the control text has not moved."""

    def __init__(self, positions: Mapping[TopicPartition, int]) -> None:
        self._positions = positions

    def __getitem__(self, partition: TopicPartition) -> int:
        return self._positions[partition]

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[TopicPartition]:
        reach(BEFORE_OFFSET_COMMIT)
        return iter(self._positions)


@dataclass
class MortalBatch:
    staged: StagedBatch

    @property
    def writer(self) -> TaskWriter:
        return self.staged.writer

    def commit(self, commit: StagedCommit) -> None:
        self.staged.commit(replace(commit, positions=DeadlyPositions(commit.positions)))
        reach(AFTER_WRITE)


class MortalReadModel(DocumentReadModel):
    def open_batch(self, writer_epoch: WriterEpoch) -> MortalBatch:  # type: ignore[override]
        reach(BEFORE_WRITE)
        return MortalBatch(super().open_batch(writer_epoch))


@dataclass(frozen=True)
class MortalSink:
    sink: OpenSearchSink

    @property
    def capabilities(self) -> Capabilities:
        return self.sink.capabilities

    def connect(self, projection: str) -> MortalReadModel:
        return MortalReadModel(projection, self.sink, self.sink.open_store(projection))


def opensearch_sink() -> OpenSearchSink:
    return OpenSearchSink(os.environ["MORTAL_SERVER"], replicas=0)


if "MORTAL_SERVER" in os.environ:
    app = App()
    app.projection(
        Projection(
            NAME,
            topic=TOPIC,
            sinks=[MortalSink(opensearch_sink())],
            batch_messages_max=int(os.environ["MORTAL_BATCH"]),
        )
    )

"""A driver that runs two projections once, each until its point: `python mortal_projection.py JSON`.

Whoever comes to its point after some batches were applied says so with a file and waits there for ever. The
driver is killed when both have said so.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from driftq.pipeline import Projection, open_session
from driftq.settings import load_settings
from driftq.sinks import (
    Application,
    Capabilities,
    PostgresSink,
    SqliteSink,
    StagedBatch,
    StagedCommit,
    TaskWriter,
    TopicPartition,
    WriterEpoch,
)
from driftq.sinks.postgres import PostgresReadModel
from driftq.sinks.sql_model import SqlReadModel

POINTS = ("before write", "before offset commit", "after write")
TARGETS = {"lights": ("sqlite", "postgres"), "doors": ("postgres", "sqlite")}
"""Each projection writes to both, one after the other; its point is in the first of them."""


@dataclass(frozen=True)
class Death:
    """Where, and the file that says that somebody has come there."""

    point: str
    mark: str
    arrived: threading.Event

    def come(self, point: str) -> None:
        self.arrived.set()
        if self.point == point:
            Path(self.mark).write_text("here")
            threading.Event().wait()


class DeadlyPositions(Mapping[TopicPartition, int]):
    """Positions that are fatal to look at: the rows are written by then, and nothing is committed."""

    def __init__(self, positions: Mapping[TopicPartition, int], death: Death) -> None:
        self._positions = positions
        self._death = death

    def __getitem__(self, place: TopicPartition) -> int:
        return self._positions[place]

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[TopicPartition]:
        self._death.come("before offset commit")
        return iter(self._positions)


class MortalModel(SqlReadModel):
    """Gathered by the driver."""

    death: Death

    def apply(self, application: Application, writer_epoch: WriterEpoch) -> None:
        self.death.come("before write")
        super().apply(
            replace(application, positions=DeadlyPositions(application.positions, self.death)), writer_epoch
        )
        self.death.come("after write")


class MortalBatch:
    """Staged by tasks: everything is in the staging table before the first point."""

    def __init__(self, staged: StagedBatch, death: Death) -> None:
        self._staged = staged
        self._death = death

    @property
    def writer(self) -> TaskWriter:
        return self._staged.writer

    def commit(self, commit: StagedCommit) -> None:
        self._death.come("before write")
        self._staged.commit(replace(commit, positions=DeadlyPositions(commit.positions, self._death)))
        self._death.come("after write")


class MortalStagedModel(PostgresReadModel):
    death: Death

    def open_batch(self, writer_epoch: WriterEpoch) -> StagedBatch:  # type: ignore[override]
        return MortalBatch(super().open_batch(writer_epoch), self.death)


@dataclass(frozen=True)
class MortalSink:
    sink: SqliteSink | PostgresSink
    death: Death

    @property
    def capabilities(self) -> Capabilities:
        return self.sink.capabilities

    def connect(self, projection: str) -> MortalModel | MortalStagedModel:
        model: SqlReadModel = self.sink.connect(projection)
        model.__class__ = MortalStagedModel if isinstance(model, PostgresReadModel) else MortalModel
        assert isinstance(model, MortalModel | MortalStagedModel)
        model.death = self.death
        return model


def main() -> None:
    told = json.loads(sys.argv[1])
    options = load_settings().pipeline(url=told["url"], data=told["data"])
    spark = open_session(options, master="local[2]")

    arrived = threading.Event()

    def run(name: str) -> None:
        if name != next(iter(TARGETS)):
            arrived.wait()  # Spark cannot plan the first batches of two queries at the same moment.
        sinks: dict[str, SqliteSink | PostgresSink] = {
            "sqlite": SqliteSink(told["sqlite"][name]),
            "postgres": PostgresSink(told["postgres"]),
        }
        first, second = (sinks[engine] for engine in TARGETS[name])
        death = Death(told["point"], told["marks"][name], arrived)
        projection = Projection(
            name,
            topic=told["topic"],
            sinks=[MortalSink(first, death), second],
            batch_messages_max=told["batch_messages_max"],
        )
        projection.run(spark, options=options, once=True)

    with ThreadPoolExecutor(len(TARGETS)) as threads:
        list(threads.map(run, TARGETS))


if __name__ == "__main__":
    main()

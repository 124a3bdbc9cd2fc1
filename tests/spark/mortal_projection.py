"""A driver process that runs a projection once and dies at a named point: `python mortal_projection.py JSON`.

It kills its whole process group with SIGKILL, JVM and Python workers too, the first time it comes to the
point after some batches were applied; a file remembers that it did.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from driftq.pipeline import Projection, open_session
from driftq.settings import load_settings
from driftq.sinks import Application, Place, PostgresSink, ReadModelSink, SqliteSink, Tenure
from driftq.sinks.sql_model import SqlReadModel

POINTS = ("before write", "before offset commit", "after write")


@dataclass(frozen=True)
class Death:
    """Where, in which target, and the file that says it has been there."""

    engine: str
    point: str
    mark: str

    def come(self, engine: str, point: str) -> None:
        if (self.engine, self.point) == (engine, point) and not Path(self.mark).exists():
            Path(self.mark).write_text("died")
            os.killpg(0, signal.SIGKILL)


class DeadlyPositions(Mapping[Place, int]):
    """Positions that are fatal to look at: the rows are written by then, and nothing is committed."""

    def __init__(self, positions: Mapping[Place, int], death: Death, engine: str) -> None:
        self._positions = positions
        self._death = death
        self._engine = engine

    def __getitem__(self, place: Place) -> int:
        return self._positions[place]

    def __len__(self) -> int:
        return len(self._positions)

    def __iter__(self) -> Iterator[Place]:
        self._death.come(self._engine, "before offset commit")
        return iter(self._positions)


class MortalModel(SqlReadModel):
    death: Death
    engine: str

    def apply(self, application: Application, tenure: Tenure) -> None:
        self.death.come(self.engine, "before write")
        deadly = DeadlyPositions(application.positions, self.death, self.engine)
        super().apply(replace(application, positions=deadly), tenure)
        self.death.come(self.engine, "after write")


@dataclass(frozen=True)
class MortalSink:
    sink: SqliteSink | PostgresSink
    engine: str
    death: Death

    def connect(self, projection: str) -> MortalModel:
        model = self.sink.connect(projection)
        model.__class__ = MortalModel
        assert isinstance(model, MortalModel)
        model.death, model.engine = self.death, self.engine
        return model


def main() -> None:
    told = json.loads(sys.argv[1])
    death = Death(told["engine"], told["point"], told["mark"])
    sinks: list[ReadModelSink] = [
        MortalSink(SqliteSink(told["sqlite"]), "sqlite", death),
        MortalSink(PostgresSink(told["postgres"]), "postgres", death),
    ]
    options = load_settings().pipeline(url=told["url"], data=told["data"])
    spark = open_session(options, master="local[1]")
    projection = Projection(
        told["name"], topic=told["topic"], sinks=sinks, batch_messages_max=told["batch_messages_max"]
    )
    projection.run(spark, options=options, once=True)


if __name__ == "__main__":
    main()

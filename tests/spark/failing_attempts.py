"""A driver whose tasks are killed once each, after they have staged: `python failing_attempts.py JSON`."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from driftq.pipeline import Projection, open_session
from driftq.settings import load_settings
from driftq.sinks import (
    AttemptReport,
    AttemptWriter,
    Capabilities,
    PostgresSink,
    StagedBatch,
    StagedCommit,
    TaskWriter,
)
from driftq.sinks.port import WriterEpoch
from driftq.sinks.postgres import PostgresReadModel

ATTEMPTS_MAX = 4


class FatalAttempt:
    """Everything is in the staging table when the process dies; the driver gets no report."""

    def __init__(self, attempt: AttemptWriter, mark: Path) -> None:
        self._attempt = attempt
        self._mark = mark

    def finish(self) -> AttemptReport:
        report = self._attempt.finish()
        try:
            self._mark.touch(exist_ok=False)
        except FileExistsError:
            return report
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("still alive")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._attempt, name)


@dataclass(frozen=True)
class FatalWriter:
    writer: TaskWriter
    marks: str

    def begin(self, *, task: int, attempt: int) -> Any:
        begun = self.writer.begin(task=task, attempt=attempt)
        return FatalAttempt(begun, Path(self.marks) / f"died-{task}")


@dataclass
class FatalBatch:
    staged: StagedBatch
    marks: str

    @property
    def writer(self) -> FatalWriter:
        return FatalWriter(self.staged.writer, self.marks)

    def commit(self, commit: StagedCommit) -> None:
        self.staged.commit(commit)


class FatalModel(PostgresReadModel):
    marks: str

    def open_batch(self, writer_epoch: WriterEpoch) -> Any:
        return FatalBatch(super().open_batch(writer_epoch), self.marks)


@dataclass(frozen=True)
class FatalSink:
    sink: PostgresSink
    marks: str
    capabilities: ClassVar[Capabilities] = PostgresSink.capabilities

    def connect(self, projection: str) -> FatalModel:
        model: PostgresReadModel = self.sink.connect(projection)
        model.__class__ = FatalModel
        assert isinstance(model, FatalModel)
        model.marks = self.marks
        return model


def main() -> None:
    told = json.loads(sys.argv[1])
    options = load_settings().pipeline(url=told["url"], data=told["data"])
    spark = open_session(options, master=f"local[2,{ATTEMPTS_MAX}]")
    sink = FatalSink(PostgresSink(told["postgres"]), told["marks"])
    Projection("fragile", topic=told["topic"], sink=sink).run(spark, options=options, once=True)
    spark.stop()


if __name__ == "__main__":
    main()

"""Rows written from Spark's tasks: attempts that die, a database that crashes, and what the driver sees."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from driftq.errors import InvalidArgument
from driftq.eventstore.published import PublishedEvent
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline import Projection, ordered
from driftq.settings import load_settings
from driftq.sinks import (
    Capabilities,
    ParquetSink,
    PostgresSink,
    ReadModelSink,
    StagedBatch,
    StagedCommit,
    StagedReadModel,
    TaskWriter,
    WriterEpoch,
)
from driftq.sinks.postgres import PostgresReadModel
from tests.conformance.sinks.staging import leftovers
from tests.harness import ServerProcess
from tests.services_postgres import PostgresServer, postgres_database_url, postgres_url, private_postgres
from tests.spark import failing_attempts
from tests.spark.events import create, event, expected, found, history, mixed, send

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["postgres_database_url", "postgres_url", "private_postgres"]


@pytest.fixture
def options(url: str, tmp_path: Path) -> PipelineOptions:
    made = load_settings().pipeline(url=url, data=str(tmp_path))
    return replace(made, registry=replace(made.registry, projection_retries_max=1))


@dataclass
class Overheard:
    """What the driver is told at each commit."""

    commits: list[StagedCommit] = field(default_factory=list)


class OverheardBatch:
    """A batch whose commit is written down, after `before` has run."""

    def __init__(self, staged: StagedBatch, overheard: Overheard, before: Callable[[], None]) -> None:
        self._staged = staged
        self._overheard = overheard
        self._before = before

    @property
    def writer(self) -> TaskWriter:
        return self._staged.writer

    def commit(self, commit: StagedCommit) -> None:
        self._overheard.commits.append(commit)
        self._before()
        self._staged.commit(commit)


class OverheardModel(PostgresReadModel):
    overheard: Overheard
    before: Callable[[], None]

    def open_batch(self, writer_epoch: WriterEpoch) -> StagedBatch:  # type: ignore[override]
        return OverheardBatch(super().open_batch(writer_epoch), self.overheard, self.before)


@dataclass(frozen=True)
class OverheardSink:
    sink: PostgresSink
    overheard: Overheard
    before: Callable[[], None] = lambda: None
    capabilities: ClassVar[Capabilities] = PostgresSink.capabilities

    def connect(self, projection: str) -> OverheardModel:
        model: PostgresReadModel = self.sink.connect(projection)
        model.__class__ = OverheardModel
        assert isinstance(model, OverheardModel)
        model.overheard, model.before = self.overheard, self.before
        return model


@pytest.mark.clause("V10")
@pytest.mark.timeout(300)
def test_the_driver_gets_reports_and_positions_whatever_a_batch_holds(
    spark: SparkSession,
    server: ServerProcess,
    options: PipelineOptions,
    postgres_database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    frames = type(spark.range(1))
    crossed: list[int] = []
    to_arrow, collect = frames.toArrow, frames.collect

    def count_arrow(rows: DataFrame) -> Any:
        table = to_arrow(rows)
        crossed.append(table.num_rows)
        return table

    def count_rows(rows: DataFrame) -> Any:
        got = collect(rows)
        crossed.append(len(got))
        return got

    create(server, "events.watched", partitions=3)
    send(server, "events.watched", [event(1, of=f"o-{number}") for number in range(12_000)])
    send(server, "events.watched", ["no JSON"] * 40)
    overheard = Overheard()
    sink = OverheardSink(PostgresSink(postgres_database_url, schema="watched"), overheard)
    projection = Projection("watched", topic="events.watched", sink=sink)
    monkeypatch.setattr(frames, "toArrow", count_arrow)
    monkeypatch.setattr(frames, "collect", count_rows)
    projection.run(spark, options=options, once=True)
    monkeypatch.undo()
    tasks = sum(len(commit.reports) for commit in overheard.commits)
    assert sum(crossed) == tasks
    assert tasks <= 3 * len(overheard.commits)
    assert all(not commit.dead_letters for commit in overheard.commits)
    assert sum(report.changes for commit in overheard.commits for report in commit.reports) == 12_000
    model = sink.connect("watched")
    assert len(list(model.rows())) == 12_000
    assert len(list(model.dead_letters())) == 40
    model.close()


@pytest.mark.clause("V10", "V3", "V3c")
@pytest.mark.timeout(300)
def test_a_crash_of_the_database_between_staging_and_commit_loses_nothing(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, private_postgres: PostgresServer
) -> None:
    crashes = iter([True])

    def crash_once() -> None:
        if next(crashes, False):
            private_postgres.stop()
            private_postgres.start()

    create(server, "events.crashed")
    events = history(50, 4)
    first, *later = mixed(events, seed=5)
    send(server, "events.crashed", [first])
    unhurt = PostgresSink(private_postgres.url)
    Projection("crashed", topic="events.crashed", sink=unhurt).run(spark, options=options, once=True)
    send(server, "events.crashed", later)  # Only the staging of first rows outlives a crash.
    overheard = Overheard()
    sink = OverheardSink(PostgresSink(private_postgres.url), overheard, crash_once)
    Projection("crashed", topic="events.crashed", sink=sink).run(spark, options=options, once=True)
    assert len(overheard.commits) >= 2
    model = sink.connect("crashed")
    assert found(model) == expected(events)
    assert list(model.dead_letters()) == []
    assert leftovers(model) == 0
    model.close()


@pytest.mark.clause("V10", "X3")
@pytest.mark.timeout(600)
def test_an_attempt_that_dies_after_staging_is_repeated_and_counts_once(
    server: ServerProcess, url: str, tmp_path: Path, postgres_database_url: str
) -> None:
    """In a driver of its own, whose tasks have more than one attempt."""
    create(server, "events.fragile", partitions=2)
    events = history(300, 5)
    send(server, "events.fragile", mixed(events, seed=6))
    told = {
        "url": url,
        "data": str(tmp_path),
        "postgres": postgres_database_url,
        "topic": "events.fragile",
        "marks": str(tmp_path),
    }
    command = [sys.executable, failing_attempts.__file__, json.dumps(told)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert ran.returncode == 0, ran.stderr[-8000:]
    assert len(list(tmp_path.glob("died-*"))) == 2
    model = PostgresSink(postgres_database_url).connect("fragile")
    assert found(model) == expected(events)
    assert leftovers(model) == 0
    model.close()


@pytest.mark.clause("V10", "K8", "V3")
@pytest.mark.timeout(300)
def test_rows_that_postgres_refuses_become_dead_letters_of_their_messages(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, postgres_database_url: str
) -> None:
    from pyspark.sql import functions as f

    def broken_sometimes(events: DataFrame) -> DataFrame:
        number = f.get_json_object("payload", "$.at").cast("long")
        state = f.when(number == 3, f.lit("{no JSON")).otherwise(f.col("payload"))
        named = f.when(number == 5, f.lit(None)).otherwise(f.col("aggregate_id"))
        return events.select(
            "aggregate_type",
            named.alias("aggregate_id"),
            "sequence_number",
            "event_id",
            state.alias("state"),
        )

    create(server, "events.odd")
    events = [event(number, of=f"o-{number}") for number in range(1, 9)]
    send(server, "events.odd", [*events, "no JSON"])
    sinks: list[ReadModelSink] = [PostgresSink(postgres_database_url), ParquetSink(f"{options.data}/odd")]
    wanted = {"postgres": {3, 5}, "parquet": {5}}
    Projection("odd", topic="events.odd", sinks=sinks, fold=broken_sometimes).run(
        spark, options=options, once=True
    )
    for sink, refused in zip(sinks, wanted.values(), strict=True):
        model = sink.connect("odd")
        dead = {(each.event_id, each.stage) for each in model.dead_letters()}
        assert dead == {(f"order/o-{n}/{n}", "write") for n in refused} | {(None, "decode")}
        states = {row.aggregate_id for row in model.registry()}
        assert states == {f"o-{n}" for n in range(1, 9) if n not in refused}
        model.close()


@pytest.mark.clause("V10", "V1")
@pytest.mark.timeout(300)
def test_values_by_key_are_staged_too(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, postgres_database_url: str
) -> None:
    create(server, "settings", partitions=2)
    client = server.client()
    for key, value in (("a", "1"), ("b", '{"x":2}'), ("a", "3"), ("b", "null"), ("c", "{"), ("", "4")):
        client.post("/v1/produce", {"topic": "settings", "key": key, "value": value})
    sink = PostgresSink(postgres_database_url)
    Projection("settings", topic="settings", key="key", sink=sink).run(spark, options=options, once=True)
    model = sink.connect("settings")
    assert [(row.aggregate_id, row.state) for row in model.rows()] == [("a", 3)]
    assert {row.aggregate_id for row in model.registry()} == {"a", "b"}
    assert {each.value for each in model.dead_letters()} == {"{", "4"}
    model.close()


@pytest.mark.clause("V10")
def test_a_step_that_cannot_travel_to_tasks_is_refused_at_the_start(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, postgres_database_url: str
) -> None:
    lock = threading.Lock()

    def locked(state: Any, event: PublishedEvent) -> Any:
        with lock:
            return event.payload

    create(server, "events.locked")
    fold = ordered(locked)
    sink = PostgresSink(postgres_database_url)
    with pytest.raises(InvalidArgument, match=r"runs in Spark's tasks and cannot be sent there"):
        Projection("locked", topic="events.locked", sink=sink, fold=fold).run(
            spark, options=options, once=True
        )


def test_which_sinks_tasks_can_write(postgres_database_url: str, tmp_path: Path) -> None:
    sinks: list[ReadModelSink] = [PostgresSink(postgres_database_url), ParquetSink(str(tmp_path))]
    for sink in sinks:
        model = sink.connect("any")
        assert isinstance(model, StagedReadModel)
        model.close()

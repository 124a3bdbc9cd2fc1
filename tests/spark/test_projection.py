"""Projections on Spark: whatever a topic holds, the read model is that of ordered single delivery."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from driftq.errors import ProjectionFenced, ReadModelSwapped
from driftq.eventstore.published import PublishedEvent
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline import Projection, ordered
from driftq.pipeline.read_model import dead_letters, rows
from driftq.settings import load_settings
from driftq.sinks import (
    Application,
    Change,
    DeltaSink,
    ParquetSink,
    PostgresSink,
    ReadModelSink,
    SqliteSink,
    WriterEpoch,
)
from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url
from tests.spark.events import create, event, expected, found, history, mixed, send
from tests.spark.mixed_events import models, project_mixed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["postgres_database_url", "postgres_url"]


@pytest.fixture
def options(url: str, tmp_path: Path) -> PipelineOptions:
    made = load_settings().pipeline(url=url, data=str(tmp_path))
    return replace(made, registry=replace(made.registry, projection_retries_max=1))


@pytest.fixture
def sinks(tmp_path: Path, postgres_database_url: str) -> list[ReadModelSink]:
    return [
        SqliteSink(f"{tmp_path}/rows.db"),
        PostgresSink(postgres_database_url),
        ParquetSink(f"{tmp_path}/rows"),
        DeltaSink(f"{tmp_path}/delta"),
    ]


@pytest.fixture
def sink(tmp_path: Path) -> SqliteSink:
    return SqliteSink(f"{tmp_path}/one.db")


@pytest.mark.clause("V1", "V2", "V8", "X4", "Z6", "V2a", "V2b", "V2c")
@pytest.mark.timeout(300)
def test_ten_thousand_mixed_events_come_to_what_ordered_single_delivery_gives(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, sinks: list[ReadModelSink]
) -> None:
    """A hundred thousand of them are in the matrix."""
    project_mixed(spark, server, options, sinks, history(1_000, 10))


@pytest.mark.clause("V3", "V1", "V3a", "V3b")
@pytest.mark.timeout(300)
def test_poison_is_set_aside_with_stage_and_error_and_holds_nobody_up(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions
) -> None:
    create(server, "events.poisoned")
    broken = json.dumps(event(3, of="half"))[:-20]
    headless = json.dumps(event(2, of="half") | {"payload": None, "operation": "invent"})
    send(server, "events.poisoned", [event(1, of="half"), event(1), "no JSON", broken, "[]"])
    send(server, "events.poisoned", [event(2)])
    server.client().post("/v1/produce", {"topic": "events.poisoned", "key": "half", "value": headless})
    projection = Projection("poisoned", topic_pattern=r"events\.poison.*")
    projection.run(spark, options=options, once=True)
    found_rows = [(row["aggregate_id"], row["sequence_number"]) for row in rows(options, "poisoned")]
    assert found_rows == [("half", 1), ("o-1", 2)]
    dead = list(dead_letters(options, "poisoned"))
    assert {each.value for each in dead} == {"no JSON", broken, "[]", headless}
    assert {each.stage for each in dead} == {"decode"}
    assert all(each.error for each in dead)
    send(server, "events.poisoned", [event(2, of="half")])
    projection.run(spark, options=options, once=True)
    assert {row["sequence_number"] for row in rows(options, "poisoned")} == {2}
    assert len(list(dead_letters(options, "poisoned"))) == 4


@pytest.mark.clause("Z6", "V4")
@pytest.mark.timeout(300)
def test_a_second_run_fences_the_first_and_a_rebuild_takes_the_place_of_what_was(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, sink: SqliteSink
) -> None:
    create(server, "events.contested", partitions=1)
    send(server, "events.contested", [event(1), event(1, of="o-2")])
    projection = Projection("contested", topic="events.contested", sink=sink)
    first = projection.job(options)
    query = first.start(spark, once=False)
    query.processAllAvailable()

    rival = sink.connect("contested")
    rival.take_over()  # As a driver in another process does.
    send(server, "events.contested", [event(2), event(3)])
    with pytest.raises(Exception, match="replaced by run 2"):
        query.awaitTermination(120)
    assert isinstance(first.failure, ProjectionFenced)
    with pytest.raises(ProjectionFenced):
        first.start(spark, once=False)  # It does not come back by itself.
    first.close()
    assert {row.sequence_number for row in rival.rows()} == {1}

    second = projection.job(options)
    other = second.start(spark, once=False)
    other.processAllAvailable()
    model = sink.connect("contested")
    assert found(model)[0] == [("order", "o-1", 3, {"at": 3}), ("order", "o-2", 1, {"at": 1})]

    # A fold that was wrong is mended by a rebuild, under the running query.
    model.apply(Application(changes=[Change("order", "wrong", 9, "wrong", "{}")]), WriterEpoch(3, 1))
    told: list[str] = []
    projection.rebuild(options).run(spark, told.append)
    assert found(model)[0] == [("order", "o-1", 3, {"at": 3}), ("order", "o-2", 1, {"at": 1})]
    assert "4 of 4 messages (100 %)" in told[-2]
    send(server, "events.contested", [event(4)])
    with pytest.raises(Exception, match="was rebuilt"):
        other.awaitTermination(120)
    assert isinstance(second.failure, ReadModelSwapped)
    second.close()
    rival.close()
    projection.run(spark, options=options, once=True)
    assert found(model) == expected([event(4), event(1, of="o-2")])
    model.close()


@pytest.mark.clause("K8", "V1", "V3")
@pytest.mark.timeout(300)
def test_differences_are_applied_in_order_whatever_order_they_come_in(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, sinks: list[ReadModelSink]
) -> None:
    def spell(state: Any, event: PublishedEvent) -> Any:
        if event.payload["at"] == 5:
            raise ValueError("five cannot be spelled")
        return {"said": (state or {"said": ""})["said"] + str(event.payload["at"])}

    create(server, "events.spelled")
    events = history(20, 9, deleting=1000)
    arriving = mixed(events, seed=2)
    late = [each for each in arriving if each["sequence_number"] == 2]
    projection = Projection("spelled", topic="events.spelled", sinks=sinks, fold=ordered(spell))
    send(server, "events.spelled", [each for each in arriving if each["sequence_number"] != 2])
    projection.run(spark, options=options, once=True)
    for model in models(sinks, "spelled"):
        assert {row.state["said"] for row in model.rows()} == {"1"}
    send(server, "events.spelled", late)
    projection.run(spark, options=options, once=True)
    for model in models(sinks, "spelled"):
        assert [(row.sequence_number, row.state["said"]) for row in model.rows()] == [(9, "12346789")] * 20
        assert {dead.error for dead in model.dead_letters()} == {"ValueError: five cannot be spelled"}
        assert len(list(model.dead_letters())) == 20


@pytest.mark.clause("V3", "V1", "V3a")
@pytest.mark.timeout(300)
def test_a_fold_of_the_users_own_and_the_event_that_it_cannot_take(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, sink: SqliteSink
) -> None:
    from pyspark.sql import functions as f

    def by_parity(events: DataFrame) -> DataFrame:
        at = f.get_json_object("payload", "$.at").cast("long")
        strict = f.when(at == 13, f.raise_error(f.lit("thirteen is refused"))).otherwise(at)
        return events.select(
            f.lit("parity").alias("aggregate_type"),
            f.when(strict % 2 == 0, "even").otherwise("odd").alias("aggregate_id"),
            "sequence_number",
            f.to_json(f.struct(strict.alias("last"))).alias("state"),
        )

    create(server, "events.numbers", partitions=1)
    send(server, "events.numbers", [event(number) for number in range(1, 14)])
    projection = Projection("parity", topic="events.numbers", sink=sink, fold=by_parity)
    projection.run(spark, options=options, once=True)
    model = sink.connect("parity")
    assert [(row.aggregate_id, row.sequence_number, row.state) for row in model.rows()] == [
        ("even", 12, {"last": 12}),
        ("odd", 11, {"last": 11}),
    ]
    (dead,) = model.dead_letters()
    assert (dead.stage, dead.event_id) == ("fold", "order/o-1/13")
    assert "thirteen is refused" in dead.error
    model.close()

"""Dead letters of jobs on Spark: when a run has ended, their topic has each of them once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from driftq.model.dead_letter import HandlerDeadLetter
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline import Projection, PublishedEvent, WorkerContext
from driftq.pipeline.dead_letters.driftq_letters import DriftqDeadLetters
from driftq.pipeline.worker.job import WorkerJob
from driftq.pipeline.worker.spec import WorkerSpec
from driftq.pipeline.worker.store import WorkerStore
from driftq.registry import Effect
from driftq.registry.verdict import Reject
from driftq.settings import load_settings
from driftq.sinks import DeltaSink, ParquetSink, PostgresSink, ReadModelSink, SqliteSink
from driftq.sinks.manifest import ReadModelManifest, ReadModelManifests
from tests.harness import ServerProcess
from tests.services_postgres import postgres_database_url, postgres_url
from tests.spark.events import create, event, send
from tests.support.thorough import kinds

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["postgres_database_url", "postgres_url"]


@pytest.fixture
def options(url: str, tmp_path: Path) -> PipelineOptions:
    made = load_settings(environ={}).pipeline(url=url, data=str(tmp_path))
    return replace(made, registry=replace(made.registry, projection_retries_max=1, instance_retries_max=0))


def letters(options: PipelineOptions, topic: str) -> list[HandlerDeadLetter]:
    return [each.dead_letter for each in DriftqDeadLetters(options.url).read(topic)]


def poison(server: ServerProcess, topic: str, values: Sequence[str]) -> None:
    messages = [{"topic": topic, "key": "poison", "value": value} for value in values]
    assert server.client().post("/v1/produce/batch", {"messages": messages}).body["failed"] == 0


@pytest.mark.clause("V3", "V3d", "K10")
def test_poison_of_a_projection_is_in_the_topic_for_every_kind_of_target(
    spark: SparkSession,
    server: ServerProcess,
    options: PipelineOptions,
    tmp_path: Path,
    postgres_database_url: str,
) -> None:
    sinks: dict[str, ReadModelSink] = {
        "sqlite": SqliteSink(f"{tmp_path}/rows.db"),
        "postgres": PostgresSink(postgres_database_url, schema="dead_letters"),
        "parquet": ParquetSink(f"{tmp_path}/rows"),
        "delta": DeltaSink(f"{tmp_path}/delta"),
    }
    for name in kinds(["postgres", "parquet"], thorough=["sqlite", "delta"]):
        sink = sinks[name]
        topic = f"events.poisoned-{name}"
        create(server, topic, partitions=1)
        send(server, topic, [event(1), event(2)])
        poison(server, topic, ["no JSON", "[]"])
        projection = Projection(f"poisoned_{name}", topic=topic, sink=sink)
        projection.run(spark, options=options, once=True)
        found = letters(options, topic)
        assert {each.value for each in found} == {"no JSON", "[]"}
        assert {(each.handler, each.stage, each.attempts) for each in found} == {
            (f"poisoned_{name}", "decode", 1)
        }
        assert {each.identity.split("/")[0] for each in found} == {"driftq"}
        model = sink.connect(projection.name)
        assert [place.identity for place in model.positions()] == [found[0].identity]
        model.close()
        projection.run(spark, options=options, once=True)
        projection.rebuild(options).run(spark, lambda _: None)  # It reads and gives up the same ones.
        projection.run(spark, options=options, once=True)
        assert sorted(each.id for each in letters(options, topic)) == sorted(each.id for each in found)


@pytest.mark.clause("V3", "V3d", "K10")
def test_the_position_of_a_target_without_an_outbox_moves_after_its_topic_has_the_dead_letters(
    spark: SparkSession,
    server: ServerProcess,
    options: PipelineOptions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = "events.first"
    create(server, topic, partitions=1)
    send(server, topic, [event(1)])
    poison(server, topic, ["no JSON"])
    at_commit: list[int] = []
    publish = ReadModelManifests.publish

    def noting(self: ReadModelManifests, manifest: ReadModelManifest) -> bool:
        if manifest.dead_letters:
            at_commit.append(len(letters(options, topic)))
        return publish(self, manifest)

    monkeypatch.setattr(ReadModelManifests, "publish", noting)
    Projection("first", topic=topic, sink=ParquetSink(f"{tmp_path}/rows")).run(
        spark, options=options, once=True
    )
    assert at_commit == [1]


def reject_odd(event: PublishedEvent, context: WorkerContext) -> None:
    if event.sequence_number % 2:
        raise Reject(f"{event.sequence_number} is odd")


@pytest.mark.clause("K5", "K5d", "K10")
def test_events_that_a_worker_gives_up_are_in_the_topic_once(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions
) -> None:
    topic = "events.given-up"
    create(server, topic, partitions=2)
    send(server, topic, [event(sequence, of=f"o-{of}") for of in range(5) for sequence in (1, 2)])
    poison(server, topic, ["no JSON"])
    spec = WorkerSpec(name="odd", call=reject_odd, topics=(topic,), effect=Effect.IDEMPOTENT)

    def run_once() -> Counter[str]:
        job = WorkerJob(spec, options)
        query = job.start(spark, once=True)
        try:
            assert query.awaitTermination(300)
        finally:
            query.stop()
            job.close()
        return job.counts

    assert run_once()["dead"] == 6
    found = letters(options, topic)
    assert Counter(each.stage for each in found) == {"decode": 1, "handle": 5}
    assert {each.error for each in found if each.event_id} == {"1 is odd"}
    assert {each.key for each in found} == {"", *(f"o-{of}" for of in range(5))}
    assert all(json.loads(each.value or "")["event_id"] == each.event_id for each in found if each.event_id)
    run_once()
    assert sorted(each.id for each in letters(options, topic)) == sorted(each.id for each in found)
    store = WorkerStore.open(options)
    assert store.dead_letters.count_unpublished() == 0
    store.close()

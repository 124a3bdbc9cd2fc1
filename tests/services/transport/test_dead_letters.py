"""Dead letters of jobs on each transport: published by their runs, listed once, redriven by the command."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from driftq.cli.app import app
from driftq.model.dead_letter import HandlerDeadLetter, newest_of_each
from driftq.pipeline import Projection, PublishedEvent, WorkerContext
from driftq.pipeline.dead_letters.open import open_dead_letter_topics
from driftq.pipeline.transport import TopicSubscription, open_transport
from driftq.pipeline.worker.job import WorkerJob
from driftq.pipeline.worker.spec import WorkerSpec
from driftq.pipeline.worker.store import WorkerStore
from driftq.registry import ClaimState, Effect
from driftq.registry.verdict import Reject
from driftq.sinks import ParquetSink, PostgresSink, ReadModelSink, SqliteSink
from tests.services.transport.stage import TransportStage
from tests.spark.events import event

pytestmark = [pytest.mark.timeout(600)]
Dlq = Callable[..., dict[str, Any]]


@pytest.fixture
def dlq(stage: TransportStage, monkeypatch: pytest.MonkeyPatch) -> Dlq:
    """`driftq dlq … --json` with the settings of the transport."""
    monkeypatch.setenv("DRIFTQ_TRANSPORT", stage.options.transport)
    monkeypatch.setenv("DRIFTQ_URL", stage.options.url)
    monkeypatch.setenv("DRIFTQ_DATA", stage.options.data)
    if stage.options.kafka.bootstrap is not None:
        monkeypatch.setenv("DRIFTQ_KAFKA_BOOTSTRAP", stage.options.kafka.bootstrap)

    def invoke(*words: str, code: int = 0) -> dict[str, Any]:
        done = CliRunner().invoke(app, ["dlq", *words, "--json"], catch_exceptions=False)
        assert done.exit_code == code, done.output
        return dict(json.loads(done.stdout))

    return invoke


def letters(stage: TransportStage) -> list[HandlerDeadLetter]:
    topics = open_dead_letter_topics(stage.options)
    return newest_of_each(each.dead_letter for each in topics.read(stage.topic))


@pytest.mark.clause("K10", "V3", "V3d", "Z4")
@pytest.mark.parametrize("target", [SqliteSink, PostgresSink, ParquetSink])
def test_poison_of_a_projection_is_a_message_of_the_dead_letter_topic(
    stage: TransportStage, dlq: Dlq, sinks: list[ReadModelSink], target: type
) -> None:
    stage.create()
    stage.send([event(1), "no JSON", event(2)])
    [sink] = [each for each in sinks if isinstance(each, target)]
    projection = Projection("orders", topic=stage.topic, sink=sink)
    for _ in range(2):
        projection.run(stage.spark, options=stage.options, once=True)
    [letter] = letters(stage)
    identities = open_transport(stage.options).identities(TopicSubscription(topics=(stage.topic,)))
    assert (letter.handler, letter.stage, letter.value) == ("orders", "decode", "no JSON")
    assert letter.identity == identities[stage.topic]
    [listed] = [each for each in dlq("list")["dlqs"] if each["topic"] == stage.topic]
    assert listed["messages"] == 1
    [shown] = dlq("show", stage.topic)["messages"]
    assert (shown["envelope"]["dlq"]["id"], shown["value"]) == (letter.id, "no JSON")
    refused = dlq("redrive", stage.topic, code=1)
    assert (refused["redriven"], refused["skipped"][0]["reason"]) == (0, "unknown_projection")


def redriven(dlq: Dlq, stage: TransportStage) -> dict[str, str | None]:
    """Who redrove which, as the command shows it."""
    shown = dlq("show", stage.topic)["messages"]
    return {each["envelope"]["dlq"]["id"]: each.get("redriven_by") for each in shown}


def reject(event: PublishedEvent, context: WorkerContext) -> None:
    raise Reject(f"{event.event_id} is refused")


@pytest.mark.clause("K10", "K5", "K5d", "Z4")
def test_an_event_that_a_worker_gives_up_is_redriven_in_the_registry(stage: TransportStage, dlq: Dlq) -> None:
    stage.create()
    stage.send([event(1), event(2), "no JSON"])
    spec = WorkerSpec(name="refusing", call=reject, topics=(stage.topic,), effect=Effect.IDEMPOTENT)
    job = WorkerJob(spec, stage.options)
    for _ in range(2):
        query = job.start(stage.spark, once=True)
        assert query.awaitTermination(240)
        query.stop()
        job.close()
    found = letters(stage)
    assert sorted(each.stage for each in found) == ["decode", "handle", "handle"]
    assert len({each.identity for each in found}) == 1
    [wanted] = [each for each in found if each.event_id == "order/o-1/1"]
    assert dlq("redrive", stage.topic, "--id", wanted.id, "--by", "ada")["redriven"] == 1
    store = WorkerStore.open(stage.options)
    assert store.registry.find("refusing", "order/o-1/1").state is ClaimState.READY
    store.close()
    marks = {
        each["envelope"]["dlq"]["id"]: each.get("redriven_by")
        for each in dlq("show", stage.topic)["messages"]
    }
    assert marks == {each.id: "ada" if each.id == wanted.id else None for each in found}
    job.take_up_parked(everything=True)  # As the worker does when it runs: it fails once more.
    query = job.start(stage.spark, once=True)
    assert query.awaitTermination(240)
    query.stop()
    job.close()
    again = {each.id: each.redrives for each in letters(stage)}
    assert again == {each.id: int(each.id == wanted.id) for each in found}
    marks = {
        each["envelope"]["dlq"]["id"]: each.get("redriven_by")
        for each in dlq("show", stage.topic)["messages"]
    }
    assert set(marks.values()) == {None}

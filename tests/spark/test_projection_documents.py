"""A sink of documents under a projection on Spark: written by tasks, rebuilt, or refused at the start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from driftq.errors import InvalidArgument
from driftq.model import Aggregate
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline import Projection, PublishedEvent, ordered
from driftq.pipeline.dead_letters.driftq_letters import DriftqDeadLetters
from driftq.settings import load_settings
from driftq.sinks import Capabilities
from examples.custom_sink import DOCUMENT_BYTES_MAX, KeyValueSink
from tests.harness import ServerProcess
from tests.spark.events import create, event, expected, found, history, mixed, send

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def options(url: str, tmp_path: Path) -> PipelineOptions:
    made = load_settings().pipeline(url=url, data=str(tmp_path))
    return replace(made, registry=replace(made.registry, projection_retries_max=1))


@pytest.fixture
def sink(tmp_path: Path) -> KeyValueSink:
    return KeyValueSink(str(tmp_path))


@pytest.mark.clause("V1", "V4", "V9", "V10")
@pytest.mark.timeout(300)
def test_shuffled_and_doubled_events_converge_and_a_rebuild_gives_the_same(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, sink: KeyValueSink
) -> None:
    events = history(40, 6)
    create(server, "events.documents", partitions=3)
    projection = Projection("documents", topic="events.documents", sink=sink, batch_messages_max=100)
    for part in (mixed(events, seed=1)[:150], mixed(events, seed=2)):
        send(server, "events.documents", part)
        projection.run(spark, options=options, once=True)
    model = sink.connect("documents")
    assert found(model) == expected(events)
    before = model.positions()
    projection.rebuild(options).run(spark, lambda _: None)
    assert found(model) == expected(events)
    assert model.positions() == before
    model.close()


def total(state: dict[str, Any] | None, event: PublishedEvent) -> dict[str, Any]:
    if event.payload["at"] == 3 and event.aggregate_id == "o-bad":
        raise ValueError("cannot be added")
    return {"sum": (0 if state is None else state["sum"]) + event.payload["at"]}


@pytest.mark.clause("V1", "V3", "V3a", "V3d", "V9", "V10", "K8", "K10")
@pytest.mark.timeout(300)
def test_an_ordered_fold_waits_for_the_missing_event_and_gives_up_the_broken_one(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, sink: KeyValueSink
) -> None:
    topic = "events.totals"
    create(server, topic)
    projection = Projection("totals", topic=topic, sink=sink, fold=ordered(total))
    send(server, topic, [event(sequence, of=name) for name in ("o-1", "o-bad") for sequence in (1, 4, 3)])
    projection.run(spark, options=options, once=True)
    model = sink.connect("totals")
    aggregate = Aggregate("order", "o-1")
    assert [each.sequence_number for each in model.waiting([aggregate])] == [3, 4]
    assert {row.aggregate_id: row.state["sum"] for row in model.rows()} == {"o-1": 1, "o-bad": 1}
    send(server, topic, [event(2, of=name) for name in ("o-1", "o-bad")])
    for _ in range(2):
        projection.run(spark, options=options, once=True)
        assert {row.aggregate_id: row.state["sum"] for row in model.rows()} == {"o-1": 10, "o-bad": 7}
        assert model.waiting([aggregate]) == []
    [dead] = model.dead_letters()
    assert (dead.event_id, dead.stage, dead.attempts) == ("order/o-bad/3", "fold", 2)
    assert [each.dead_letter.event_id for each in DriftqDeadLetters(options.url).read(topic)] == [
        dead.event_id
    ]
    model.close()


@pytest.mark.clause("V3", "V3a", "V3b", "V9")
@pytest.mark.timeout(300)
def test_a_document_that_the_target_refuses_is_a_dead_letter_and_holds_up_no_other(
    spark: SparkSession, server: ServerProcess, options: PipelineOptions, sink: KeyValueSink
) -> None:
    create(server, "events.large", partitions=1)
    large = event(2, of="o-2", payload={"text": "x" * DOCUMENT_BYTES_MAX})
    send(server, "events.large", [event(1), event(1, of="o-2")])
    projection = Projection("large", topic="events.large", sink=sink)
    projection.run(spark, options=options, once=True)
    send(server, "events.large", [event(2), large])
    projection.run(spark, options=options, once=True)
    model = sink.connect("large")
    assert {row.aggregate_id: row.sequence_number for row in model.rows()} == {"o-1": 2, "o-2": 1}
    [dead] = model.dead_letters()
    assert (dead.event_id, dead.stage, dead.offset) == ("order/o-2/2", "write", 3)
    assert list(model.positions().values()) == [3]
    model.close()


@dataclass(frozen=True)
class LaggingSink(KeyValueSink):
    """Its reads may be behind its writes."""

    capabilities: ClassVar[Capabilities] = Capabilities(ordered=False)


@pytest.mark.clause("V10")
def test_an_ordered_fold_is_refused_by_a_sink_that_cannot_serve_it(
    spark: SparkSession, options: PipelineOptions, tmp_path: Path
) -> None:
    projection = Projection(
        "lagging", topic="events.lagging", sink=LaggingSink(str(tmp_path)), fold=ordered(total)
    )
    job = projection.job(options)
    for start in (
        job.check,
        lambda: job.start(spark, once=True),
        lambda: projection.rebuild(options).run(spark, lambda _: None),
    ):
        with pytest.raises(
            InvalidArgument, match=r"LaggingSink cannot serve the fold `ordered` of .*'lagging'"
        ):
            start()
    job.close()
    assert list(tmp_path.glob("*.db")) == []

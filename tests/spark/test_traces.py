"""One trace from the append of an event over the publisher and the topic to the read model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import driftq
from driftq.pipeline import Projection
from driftq.sinks import SqliteSink
from tests.harness import ServerProcess
from tests.spark.publishing import options_for, publish
from tests.support.tracing import recorded_spans

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with an event log that no other test writes to."""
    with ServerProcess(tmp_path_factory.mktemp("traced") / "data") as started:
        yield started


def placed(number: int) -> driftq.Event:
    return driftq.Event(
        event_id=f"e{number}",
        aggregate_type="order",
        aggregate_id=f"o{number}",
        event_type="Placed",
        kind="event",
        payload={"n": number},
    )


@pytest.mark.clause("O3")
def test_an_event_is_one_trace_from_its_append_to_the_read_model(
    spark: SparkSession, own_server: ServerProcess, tmp_path: Path
) -> None:
    options = options_for(own_server)
    sink = SqliteSink(f"{tmp_path}/rows.db")
    projection = Projection("orders", topic="events.order", sinks=[sink])
    with recorded_spans() as spans, driftq.Client(options.url) as client:
        store = driftq.EventStore(client)
        with spans.tracer.start_as_current_span("place the order"):
            store.append(placed(1))
        store.append(placed(2))
        publish(spark, options)
        (traced, untraced) = sorted(client.records("events.order"), key=lambda message: message.key)
        projection.run(spark, options=options, once=True)
        (ordered,) = spans.named("place the order")
        (published,), (projected,) = spans.named("publish events"), spans.named("project orders")
        assert spans.trace_ids() == {ordered.context.trace_id}
        for span in (published, projected):
            assert span.parent is not None
            assert span.parent.span_id == ordered.context.span_id
        assert (projected.end_time or 0) > (published.start_time or 0) > (ordered.start_time or 0)
        assert traced.envelope is not None
        assert (traced.envelope.traceparent or "").split("-")[1] == f"{ordered.context.trace_id:032x}"
        assert untraced.envelope is None
    model = sink.connect("orders")
    assert len(list(model.rows())) == 2
    model.close()

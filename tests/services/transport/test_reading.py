"""What the pipeline's jobs rely on in a transport, on DriftQ's topics and on Kafka's."""

from __future__ import annotations

from itertools import chain

import pytest

from driftq.pipeline import Projection
from driftq.pipeline.transport import TopicSubscription, open_transport
from driftq.sinks import ReadModelSink, SqliteSink, TopicPartition
from tests.services.transport.stage import TransportStage, read
from tests.spark.events import event, expected, found, history, mixed

pytestmark = [pytest.mark.timeout(600)]


@pytest.mark.clause("Z4")
def test_messages_have_the_columns_of_their_events_in_the_order_they_were_sent(stage: TransportStage) -> None:
    stage.create()
    events = history(6, 4)
    stage.send(events)
    rows = list(chain.from_iterable(read(stage, messages_max=10)))
    assert {row["topic"] for row in rows} == {stage.topic}
    assert sorted(row["event_id"] for row in rows) == sorted(each["event_id"] for each in events)
    for which in range(6):
        own = [row for row in rows if row["aggregate_id"] == f"o-{which}"]
        assert {row["partition"] for row in own} == {own[0]["partition"]}
        assert {(row["key"], row["aggregate_type"]) for row in own} == {(f"o-{which}", "order")}
        assert [row["sequence_number"] for row in own] == [1, 2, 3, 4]
        offsets = [row["offset"] for row in own]
        assert offsets == sorted(offsets)


@pytest.mark.clause("Z4")
def test_a_reader_goes_on_where_it_stopped(stage: TransportStage) -> None:
    stage.create()
    stage.send(history(5, 2))
    seen = list(chain.from_iterable(read(stage)))
    after = {
        TopicPartition(stage.topic, partition): 1
        + max(row["offset"] for row in seen if row["partition"] == partition)
        for partition in {row["partition"] for row in seen}
    }
    assert read(stage, starting=after) == []
    stage.send([event(3, of=f"o-{which}") for which in range(5)])
    rows = list(chain.from_iterable(read(stage, starting=after)))
    assert sorted(row["event_id"] for row in rows) == [f"order/o-{which}/3" for which in range(5)]


@pytest.mark.clause("Z4", "V10")
def test_a_topic_that_is_created_again_has_another_identity(stage: TransportStage) -> None:
    transport, wanted = open_transport(stage.options), TopicSubscription(topics=(stage.topic,))
    assert transport.identities(wanted) == {}
    stage.create()
    first = transport.identities(wanted)
    assert first == transport.identities(wanted)
    assert first[stage.topic].startswith(f"{stage.options.transport}/")
    stage.delete()
    stage.create()
    assert transport.identities(wanted)[stage.topic] != first[stage.topic]


@pytest.mark.clause("Z4", "V10")
def test_a_topic_that_is_created_again_is_read_from_its_start(
    stage: TransportStage, sinks: list[ReadModelSink]
) -> None:
    stage.create()
    events = history(20, 3)
    projection = Projection("orders", topic=stage.topic, sinks=sinks)
    stage.send(events)
    projection.run(stage.spark, options=stage.options, once=True)
    stage.delete()
    stage.create()
    more = [event(4, of=f"o-{which}") for which in range(1, 20) if which % 7]
    stage.send(more)
    projection.run(stage.spark, options=stage.options, once=True)
    for sink in sinks:
        model = sink.connect("orders")
        assert found(model) == expected([*events, *more])
        assert len({place.identity for place in model.positions()}) == 2
        model.close()


@pytest.mark.clause("Z4", "V1")
def test_mixed_events_come_to_what_ordered_single_delivery_gives(
    stage: TransportStage, sinks: list[ReadModelSink]
) -> None:
    stage.create()
    events = history(300, 5)
    arriving = mixed(events, seed=3)
    projection = Projection("orders", topic=stage.topic, sinks=sinks, batch_messages_max=500)
    stage.send(arriving[:1_000])
    projection.run(stage.spark, options=stage.options, once=True)
    stage.send(arriving[1_000:])
    projection.run(stage.spark, options=stage.options, once=True)
    for sink in sinks:
        model = sink.connect("orders")
        assert found(model) == expected(events)
        model.close()


@pytest.mark.clause("V3", "Z4", "V3b")
def test_a_message_that_is_no_event_is_a_dead_letter_and_holds_up_nothing(stage: TransportStage) -> None:
    stage.create()
    events = history(4, 2)
    projection = Projection("orders", topic=stage.topic, sink=SqliteSink(f"{stage.options.data}/rows.db"))
    stage.send([*events, "not JSON", '{"event_id": "e", "aggregate_type": "order"}'])
    projection.run(stage.spark, options=stage.options, once=True)
    model = projection.sinks[0].connect("orders")
    assert found(model) == expected(events)
    dead = list(model.dead_letters())
    assert sorted(str(one.value) for one in dead) == [
        "not JSON",
        '{"event_id": "e", "aggregate_type": "order"}',
    ]
    assert {(one.topic, one.stage) for one in dead} == {(stage.topic, "decode")}

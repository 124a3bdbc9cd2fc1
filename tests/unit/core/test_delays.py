"""Delayed messages: groups pass over them, have them when their instant has come, and others do not wait."""

import pytest

from driftq.core.decide.retention import decide_retention
from driftq.core.records import MessagesDelivered, PartitionsTrimmed, Trim
from driftq.core.snapshot.state import dump_state, load_state
from driftq.errors import InvalidArgument, Overloaded
from driftq.model import Envelope, Message
from driftq.model.options.limits import Limits
from driftq.model.time import rfc3339
from driftq.server.produce.prepare import prepare
from tests.unit.core.machine import PureBroker, command

HOUR_MS = 3_600_000


def ordinals(record: MessagesDelivered | None) -> list[int]:
    """Of the first deliveries; there are no others."""
    if record is None:
        return []
    assert not record.redelivered
    return [one for block in record.fresh for one in range(block.start, block.stop, block.step)]


def produce(broker: PureBroker, *delays_ms: int | None) -> None:
    broker.produce_commands(
        [
            command("x", deliver_at=None if delay_ms is None else broker.now + delay_ms)
            for delay_ms in delays_ms
        ]
    )


@pytest.mark.clause("P9")
def test_later_messages_do_not_wait_for_a_delayed_one(broker: PureBroker) -> None:
    broker.group()
    produce(broker, None, 500, None, 200, None)
    assert ordinals(broker.deliver(("a", 9))) == [0, 2, 4]
    assert broker.end_delays() == []
    assert broker.deliver(("a", 9)) is None
    broker.now += 200
    assert broker.end_delays() == [3]
    assert ordinals(broker.deliver(("a", 9))) == [3]
    assert broker.progress().attempt_of(3) == 1
    broker.ack(0, 2, 3, 4)
    assert broker.progress().floor == 1
    broker.now += 300
    assert broker.end_delays() == [1]
    assert ordinals(broker.deliver(("a", 9))) == [1]
    broker.ack(1)
    assert (broker.progress().floor, broker.progress().acked) == (5, 4)


@pytest.mark.clause("P9")
def test_an_instant_that_has_come_delays_nothing(broker: PureBroker) -> None:
    broker.group()
    produce(broker, 0, -5, None)
    assert broker.state.next_delay() is None
    assert ordinals(broker.deliver(("a", 9))) == [0, 1, 2]


@pytest.mark.clause("P9", "W9")
def test_instants_go_by_the_wall_clock(broker: PureBroker) -> None:
    broker.group()
    broker.wall_ahead_ms = -10_000
    broker.produce_commands([command("x", deliver_at=broker.now)])
    assert broker.deliver(("a", 9)) is not None, "the group passes over it"
    broker.now += 9_999
    assert broker.end_delays() == []
    broker.now += 1
    assert broker.end_delays() == [0]


@pytest.mark.clause("P9", "G2")
def test_what_comes_due_together_is_bounded_by_what_may_be_in_flight() -> None:
    broker = PureBroker(limits=Limits(in_flight_max=3))
    broker.group()
    produce(broker, *[100] * 5, None)
    assert ordinals(broker.deliver(("a", 9))) == [5]
    broker.now += 100
    assert broker.end_delays() == [0, 1, 2, 3, 4]
    assert ordinals(broker.deliver(("a", 9))) == [0, 1]
    broker.ack(5, 0)
    assert ordinals(broker.deliver(("a", 1), ("b", 1))) == [2, 3]
    assert broker.progress().has_work(broker.now)
    broker.ack(2)
    assert ordinals(broker.deliver(("a", 9))) == [4]
    assert not broker.progress().has_work(broker.now)


@pytest.mark.clause("P9")
def test_a_failed_delivery_of_a_delayed_message_is_retried_like_any_other(broker: PureBroker) -> None:
    broker.group()
    produce(broker, 100)
    broker.deliver(("a", 9))
    broker.now += 100
    broker.end_delays()
    broker.deliver(("a", 9))
    broker.nack(0, "boom")
    assert broker.deliver(("a", 9)) is None
    broker.now += 1_000
    again = broker.deliver(("a", 9))
    assert again is not None
    assert [block.ordinals for block in again.redelivered] == [[0]]
    assert broker.progress().attempt_of(0) == 2


@pytest.mark.clause("P9", "P4")
def test_until_it_is_due_it_counts_with_its_bytes_and_not_as_a_message() -> None:
    broker = PureBroker(limits=Limits(partition_messages_max=2, partition_bytes_max=40))
    broker.group()
    produce(broker, *[100] * 10)
    assert broker.produce("a", "b") == [(0, 10), (0, 11)]
    assert isinstance(broker.produce("c")[0], Overloaded)
    assert broker.produce("x" * 20, deliver_at=broker.now + 100) == [(0, 12)]
    assert isinstance(broker.produce("x" * 20, deliver_at=broker.now + 100)[0], Overloaded)
    broker.deliver(("a", 9))
    broker.ack(10, 11)
    broker.state.count_pressure(broker.topic, broker.now)
    assert broker.topic.partitions[0].pressure == 0
    broker.now += 100
    broker.end_delays()
    assert broker.topic.partitions[0].pressure == 11
    assert isinstance(broker.produce("d")[0], Overloaded)
    broker.state.count_pressure(broker.topic, broker.now)
    assert broker.topic.partitions[0].pressure == 11


@pytest.mark.clause("P9", "P4")
def test_a_reader_does_not_count_it_either() -> None:
    broker = PureBroker(limits=Limits(partition_messages_max=2, count_unread=True))
    produce(broker, None, 100, 100, 100)
    broker.state.count_pressure(broker.topic, broker.now)
    assert broker.topic.partitions[0].pressure == 1
    assert broker.produce("b") == [(0, 4)]


@pytest.mark.clause("P9", "G4", "G6")
def test_groups_that_begin_later_get_every_message_once(broker: PureBroker) -> None:
    broker.group("before")
    produce(broker, 100, None, 300)
    assert ordinals(broker.deliver(("a", 9), group="before")) == [1]
    broker.group("meanwhile")
    broker.now += 100
    broker.end_delays()
    broker.group("after")
    broker.group("latest", latest=True)
    assert ordinals(broker.deliver(("a", 9), group="before")) == [0]
    for group in ("meanwhile", "after"):
        assert ordinals(broker.deliver(("a", 9), group=group)) == [0, 1]
    assert broker.deliver(("a", 9), group="latest") is None
    broker.now += 200
    broker.end_delays()
    for group in ("before", "meanwhile", "after"):
        assert ordinals(broker.deliver(("a", 9), group=group)) == [2]
        assert broker.deliver(("a", 9), group=group) is None
    assert broker.deliver(("a", 9), group="latest") is None
    assert [broker.progress(group).delayed for group in ("before", "latest")] == [0, 0]


@pytest.mark.clause("P9", "P3")
def test_a_deadline_must_be_after_the_instant(broker: PureBroker) -> None:
    at = rfc3339(broker.now + 1_000)
    for deadline in (at, rfc3339(broker.now + 999)):
        message = Message(topic="orders", value="v", envelope=Envelope(deliver_at=at, deadline=deadline))
        with pytest.raises(InvalidArgument) as refused:
            prepare(message, at=broker.now)
        assert refused.value.field == "deadline"
    with pytest.raises(InvalidArgument):
        prepare(Message(topic="orders", value="v", envelope=Envelope(deliver_at="soon")), at=broker.now)


@pytest.mark.clause("P9", "T7", "W6")
def test_retention_starts_at_the_instant() -> None:
    broker = PureBroker(limits=Limits(retention_ms=HOUR_MS, idempotency_ttl_ms=1_000))
    broker.now = begin = 10 * HOUR_MS
    produce(broker, None, 2 * HOUR_MS, None)

    def kept_from() -> int:
        record = decide_retention(broker.state, broker.topic, now=broker.now, wall=broker.wall)
        if record is not None:
            broker.fold(record)
        return broker.topic.partitions[0].index.first

    assert kept_from() == 0
    broker.now = begin + HOUR_MS + 120_000
    assert kept_from() == 1
    broker.now = begin + 2 * HOUR_MS
    assert broker.end_delays() == [1]
    broker.now = begin + 3 * HOUR_MS - 1
    assert kept_from() == 1
    broker.now += 2
    assert kept_from() == 3


@pytest.mark.clause("P9", "T7")
def test_what_a_limit_in_bytes_drops_is_not_waited_for(broker: PureBroker) -> None:
    broker.group()
    produce(broker, 100, 100, 300)
    broker.deliver(("a", 9))
    trim = Trim(partition=0, first=2, lost=2)
    broker.fold(PartitionsTrimmed(at=broker.now, topic=broker.topic.id, trims=[trim]))
    assert (broker.progress().delayed, broker.progress().floor) == (1, 2)
    broker.now += 100
    assert broker.end_delays() == []
    broker.now += 200
    assert broker.end_delays() == [2]
    assert ordinals(broker.deliver(("a", 9))) == [2]


@pytest.mark.clause("P9", "W3")
def test_a_snapshot_keeps_delays_and_what_has_come_due(broker: PureBroker) -> None:
    broker.group()
    produce(broker, 100, 300, None)
    broker.deliver(("a", 9))
    broker.now += 100
    broker.end_delays()
    parts = {name: memoryview(octets) for name, octets in dump_state(broker.state).items()}
    loaded = load_state(parts, Limits())
    for chunk in broker.topic.partitions[0].index.chunks:
        loaded.topics["orders"].partitions[0].index.attach(chunk)
    broker.state = loaded
    assert ordinals(broker.deliver(("a", 9))) == [0]
    assert broker.progress().delayed == 1
    broker.now += 200
    assert broker.end_delays() == [1]
    assert ordinals(broker.deliver(("a", 9))) == [1]

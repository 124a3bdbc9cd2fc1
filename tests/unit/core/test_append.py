"""Appending by position: each message once, in order, by the newest run of its writer alone."""

import pytest

from driftq.core.decide.positions import AppendedMessages
from driftq.errors import InvalidArgument, LaneBehind, Overloaded, WriterFenced
from driftq.model.options.limits import Limits
from tests.unit.core.machine import PureBroker, command


def values(broker: PureBroker) -> list[str]:
    return [broker.stored[offset].value for offset in sorted(broker.stored)]


@pytest.mark.clause("Z2")
def test_what_a_lane_has_is_skipped_and_the_rest_is_stored() -> None:
    broker = PureBroker()
    assert broker.append({1: "a", 3: "b"}) == AppendedMessages(2, 0, 3)
    assert broker.append({1: "a", 3: "b", 4: "c"}) == AppendedMessages(1, 2, 4)
    assert broker.append({1: "a", 4: "c"}) == AppendedMessages(0, 2, 4)
    assert values(broker) == ["a", "b", "c"]


@pytest.mark.clause("Z2")
def test_lanes_and_writers_do_not_know_each_other() -> None:
    broker = PureBroker()
    broker.append({0: "a"}, lane=0)
    broker.append({0: "b"}, lane=1)
    broker.append({0: "c"}, writer="other")
    assert values(broker) == ["a", "b", "c"]


@pytest.mark.clause("Z2")
def test_an_older_run_is_refused_also_for_what_is_there() -> None:
    broker = PureBroker()
    assert broker.open_writer() == 1
    broker.append({0: "a"}, epoch=1)
    assert broker.open_writer() == 2
    with pytest.raises(WriterFenced) as refused:
        broker.append({0: "a"}, epoch=1)
    assert (refused.value.newest, refused.value.given) == (2, 1)
    assert broker.append({0: "a", 1: "b"}, epoch=2).appended == 1
    assert values(broker) == ["a", "b"]


@pytest.mark.clause("Z2")
def test_an_append_under_a_newer_epoch_puts_it_in_force() -> None:
    broker = PureBroker()
    broker.append({0: "a"}, epoch=3)
    broker.append({1: "b"}, epoch=7)
    with pytest.raises(WriterFenced):
        broker.append({2: "c"}, epoch=6)
    with pytest.raises(WriterFenced):
        broker.open_writer(epoch=6)
    assert broker.open_writer(epoch=7) == 7
    assert broker.open_writer() == 8


@pytest.mark.clause("Z2")
@pytest.mark.parametrize("positions", [(2, 2), (3, 1)])
def test_positions_that_do_not_rise_are_refused(positions: tuple[int, int]) -> None:
    broker = PureBroker()
    with pytest.raises(InvalidArgument, match="positions must rise"):
        broker.append_at(list(positions), ["a", "b"])
    assert values(broker) == []


@pytest.mark.clause("U2")
def test_a_lane_that_lost_something_is_noticed() -> None:
    broker = PureBroker()
    broker.append({5: "a"})
    with pytest.raises(LaneBehind) as refused:
        broker.append({9: "c"}, after=7)
    assert (refused.value.position, refused.value.after) == (5, 7)
    assert broker.append({9: "c"}, after=5).appended == 1


@pytest.mark.clause("Z2", "P4")
def test_an_append_that_finds_no_room_stores_nothing_and_moves_nothing() -> None:
    broker = PureBroker(limits=Limits(partition_messages_max=2))
    broker.group()
    broker.append({0: "a"})
    with pytest.raises(Overloaded):
        broker.append({1: "b", 2: "c"})
    assert broker.append({1: "b"}).appended == 1
    assert values(broker) == ["a", "b"]


@pytest.mark.clause("P4", "U1")
def test_a_topic_that_nobody_reads_always_has_room() -> None:
    broker = PureBroker(limits=Limits(partition_messages_max=10, partition_bytes_max=100))
    for first in range(0, 500, 20):
        broker.append(dict.fromkeys(range(first, first + 20), "x" * 8))
    assert len(broker.stored) == 500


@pytest.mark.clause("Z2", "I2")
def test_a_key_that_is_known_is_skipped_and_the_lane_goes_on() -> None:
    broker = PureBroker()
    broker.produce("a", idempotency_key="k")
    keyed = [command("a", idempotency_key="k"), command("b")]
    assert broker.append_commands([0, 1], keyed) == AppendedMessages(1, 1, 1)
    assert values(broker) == ["a", "b"]


@pytest.mark.clause("Z2", "T3")
def test_an_appended_message_goes_where_a_produced_one_would() -> None:
    broker = PureBroker(partitions=3)
    keyed = [command(key, key=key) for key in ("user:1", "user:2", "user:3")]
    broker.append_commands([0, 1, 2], keyed)
    assert [part.index.end for part in broker.topic.partitions] == [1, 1, 1]
    assert broker.topic.partitions[1].index.offset_at(0) == 0

"""How the messages of a turn are spread over many streams."""

from collections import Counter

import pytest

from driftq.server.deliver.consumers import HELD_FOR_ONE, RUN_MAX
from driftq.testing.broker import Handed, SimBroker, SimStream

STREAMS = 40
LEASE_MS = 60_000


@pytest.fixture
def broker() -> SimBroker:
    return SimBroker()


def open_streams(broker: SimBroker) -> list[SimStream]:
    return [broker.consume(f"worker-{number}", lease_ms=LEASE_MS) for number in range(STREAMS)]


def spread(streams: list[SimStream]) -> list[list[int]]:
    """What each stream has got since the last look, of those that got anything."""
    return [[handed.offset for handed in taken] for stream in streams if (taken := stream.take())]


def settle_quickly(broker: SimBroker, streams: list[SimStream], *, ms: int) -> None:
    """Ten messages a millisecond, each acked at once."""
    for _ in range(ms):
        broker.produce(*"0123456789")
        for stream in streams:
            for handed in stream.take():
                broker.ack(handed)
        broker.pass_time(ms=1)


@pytest.mark.clause("G1")
def test_a_burst_goes_to_as_many_idle_streams_as_there_are(broker: SimBroker) -> None:
    streams = open_streams(broker)
    broker.produce(*map(str, range(STREAMS)))
    assert [len(got) for got in spread(streams)] == [1] * STREAMS


@pytest.mark.clause("G1", "T5")
def test_where_each_stream_has_as_many_waiting_they_come_in_runs(broker: SimBroker) -> None:
    broker.produce(*map(str, range(STREAMS * 100)))
    streams = open_streams(broker)
    got = spread(streams)
    assert all(offsets == sorted(offsets) for offsets in got)
    assert sorted(offset for offsets in got for offset in offsets) == list(range(STREAMS * 100))


@pytest.mark.clause("G1", "T5")
def test_a_brisk_group_gets_runs_and_every_stream_has_its_turn(broker: SimBroker) -> None:
    streams = open_streams(broker)
    settle_quickly(broker, streams, ms=400)
    got: Counter[int] = Counter()
    for _ in range(STREAMS):
        broker.produce(*map(str, range(2 * RUN_MAX)))
        for number, stream in enumerate(streams):
            taken = stream.take()
            assert [handed.offset for handed in taken] == sorted(handed.offset for handed in taken)
            assert len(taken) in (0, RUN_MAX)
            got[number] += len(taken)
            for handed in taken:
                broker.ack(handed)
    assert set(got.values()) == {2 * RUN_MAX}


@pytest.mark.clause("G1")
@pytest.mark.parametrize("idle_ms", [600, 5_000])
def test_a_group_that_was_idle_gets_one_message_a_stream_again(broker: SimBroker, idle_ms: int) -> None:
    streams = open_streams(broker)
    settle_quickly(broker, streams, ms=490)
    broker.pass_time(ms=idle_ms)
    broker.produce(*map(str, range(STREAMS)))
    assert [len(got) for got in spread(streams)] == [1] * STREAMS


HELD = RUN_MAX * HELD_FOR_ONE
"""So many messages in the hands of each stream allow the longest runs."""


def load(broker: SimBroker, streams: list[SimStream]) -> list[list[Handed]]:
    """Each stream gets `HELD` messages of a group that is not brisk, and acks none of them."""
    broker.produce(*map(str, range(STREAMS * HELD)))
    held = [stream.take() for stream in streams]
    assert [len(mine) for mine in held] == [HELD] * STREAMS
    return held


@pytest.mark.clause("G1", "T5")
def test_streams_that_are_busy_get_runs_in_their_order(broker: SimBroker) -> None:
    streams = open_streams(broker)
    load(broker, streams)
    broker.produce(*map(str, range(3 * RUN_MAX)))
    first, second, third = spread(streams)
    assert len(first) == len(second) == len(third) == RUN_MAX
    assert first + second + third == list(range(first[0], first[0] + 3 * RUN_MAX))
    broker.produce(*map(str, range(RUN_MAX)))
    assert streams[0].take() == []
    assert len(streams[3].take()) == RUN_MAX


@pytest.mark.clause("G1")
def test_while_one_stream_is_idle_nobody_gets_a_run(broker: SimBroker) -> None:
    streams = open_streams(broker)
    for handed in load(broker, streams)[7]:
        broker.ack(handed)
    broker.produce(*map(str, range(STREAMS)))
    assert [len(stream.take()) for stream in streams] == [1] * STREAMS


@pytest.mark.clause("G1")
def test_runs_are_shorter_where_a_stream_holds_less(broker: SimBroker) -> None:
    streams = open_streams(broker)
    for handed in load(broker, streams)[7][4 * HELD_FOR_ONE :]:
        broker.ack(handed)
    broker.produce(*map(str, range(12)))
    assert [len(got) for got in spread(streams)] == [4, 4, 4]


@pytest.mark.clause("G1")
def test_runs_end_where_a_stream_has_no_more_room(broker: SimBroker) -> None:
    streams = [
        broker.consume(f"worker-{number}", lease_ms=LEASE_MS, prefetch=HELD + 2 if number == 0 else 2 * HELD)
        for number in range(STREAMS)
    ]
    load(broker, streams)
    broker.produce(*map(str, range(2 + 2 * RUN_MAX)))
    assert [len(got) for got in spread(streams)] == [2, RUN_MAX, RUN_MAX]

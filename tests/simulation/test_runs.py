"""How the messages of a turn are spread over many streams."""

from collections import Counter

import pytest

from driftq.server.deliver.consumers import RUN_MAX
from driftq.testing.broker import SimBroker, SimStream

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

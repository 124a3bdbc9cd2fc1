"""Streams whose owner gives no sign of life, and what closing streams give back, in virtual time."""

from itertools import pairwise

import pytest

from driftq.errors import DriftQError
from driftq.model import Envelope, Message, RetryPolicy
from driftq.testing.broker import Handed, SimBroker, SimStream

LEASE_MS = 500


def produce_fragile(broker: SimBroker, count: int, *, max_attempts: int = 3, backoff_ms: int = 0) -> None:
    envelope = Envelope(retry_policy=RetryPolicy(max_attempts, backoff_ms, 1_000))
    broker.produce_messages([Message(topic="orders", value=f"{n}", envelope=envelope) for n in range(count)])


def dead(broker: SimBroker) -> list[Handed]:
    """The dead letters, read by a group that acks each."""
    try:
        stream = broker.consume("auditor", topic="dlq.orders", group="audit", lease_ms=60_000)
    except DriftQError:
        return []
    found = stream.take()
    broker.close(stream)
    return found


def times(stream: SimStream, began: int) -> list[tuple[int, int, int]]:
    """When each delivery came, and what it was."""
    return [(handed.at - began, handed.offset, handed.attempt) for handed in stream.take()]


@pytest.mark.clause("G1")
def test_a_stopped_consumer_burns_three_messages_at_most(broker: SimBroker) -> None:
    produce_fragile(broker, 50)
    stopped = broker.consume("stopped", lease_ms=LEASE_MS)
    assert len(stopped.take()) == 50
    broker.pass_time(ms=4_000)
    assert len(dead(broker)) <= 3
    assert broker.machine.engine.counters.stalls == 1
    (shown,) = broker.view().streams
    assert (shown.owner, shown.stalled) == ("stopped", True)


@pytest.mark.clause("G1", "D2")
def test_the_first_comes_when_it_is_due_and_each_further_one_after_a_longer_pause(broker: SimBroker) -> None:
    broker.produce(*"abc")
    began = broker.clock.now()
    stream = broker.consume("silent", lease_ms=1_000)
    broker.pass_time(ms=190_000)
    came = [at for at, _, _ in times(stream, began)[3:]]
    gaps = [after - before for before, after in pairwise(came)]
    assert came[0] == 1_000
    assert gaps == [2_000, 3_000, 5_000, 9_000, 17_000, 31_000, 31_000, 31_000, 31_000]


@pytest.mark.clause("G1")
def test_deliveries_that_came_one_by_one_lapse_one_by_one(broker: SimBroker) -> None:
    """It is never without a lease, and still gets one at a time."""
    stopped = broker.consume("stopped", lease_ms=LEASE_MS)
    for _ in range(20):
        produce_fragile(broker, 1)
        broker.pass_time(ms=20)
    assert len(stopped.take()) == 20
    broker.pass_time(ms=4_000)
    assert len(stopped.take()) <= 4
    assert len(dead(broker)) <= 3


@pytest.mark.clause("G1")
@pytest.mark.parametrize("sign", ["ack", "nack", "extend"])
def test_any_word_of_its_owner_ends_it_also_a_refused_one(broker: SimBroker, sign: str) -> None:
    broker.produce(*"abc")
    stream = broker.consume("slow", lease_ms=LEASE_MS)
    late = stream.take()[-1]
    broker.pass_time(ms=LEASE_MS)
    (again,) = stream.take()
    assert (again.offset, again.attempt) == (0, 2)
    with pytest.raises(DriftQError):
        if sign == "ack":
            broker.ack(late)
        elif sign == "nack":
            broker.nack(late)
        else:
            broker.extend(late, lease_ms=LEASE_MS)
    assert [handed.offset for handed in stream.take()] == [1, 2]
    assert [stream.stalled for stream in broker.view().streams] == [False]


@pytest.mark.clause("G1")
def test_a_word_of_another_owner_says_nothing_about_this_one(broker: SimBroker) -> None:
    broker.produce(*"abc")
    stopped = broker.consume("stopped", lease_ms=LEASE_MS)
    (first, *_) = stopped.take()
    broker.pass_time(ms=LEASE_MS)
    with pytest.raises(DriftQError):
        broker.ack(first, owner="somebody")
    assert len(stopped.take()) == 1


@pytest.mark.clause("G1")
def test_who_settles_some_and_lets_others_lapse_is_alive(broker: SimBroker) -> None:
    broker.produce(*"abc")
    slow = broker.consume("slow", lease_ms=LEASE_MS)
    broker.ack(slow.take()[0])
    broker.pass_time(ms=LEASE_MS)
    assert [handed.attempt for handed in slow.take()] == [2, 2]
    assert broker.machine.engine.counters.stalls == 0


@pytest.mark.clause("G1")
def test_what_lapsed_goes_to_the_others_first(broker: SimBroker) -> None:
    broker.produce(*"abcd")
    stopped = broker.consume("stopped", lease_ms=LEASE_MS)
    assert len(stopped.take()) == 4
    healthy = broker.consume("healthy", lease_ms=60_000)
    broker.pass_time(ms=LEASE_MS)
    assert [handed.offset for handed in healthy.take()] == [0, 1, 2, 3]
    assert stopped.take() == []


@pytest.mark.clause("G1")
def test_what_others_have_no_room_for_comes_to_it_one_at_a_time(broker: SimBroker) -> None:
    broker.produce(*"abcd")
    stopped = broker.consume("stopped", lease_ms=LEASE_MS)
    assert len(stopped.take()) == 4
    healthy = broker.consume("healthy", lease_ms=60_000, prefetch=2)
    broker.pass_time(ms=LEASE_MS)
    assert [handed.offset for handed in healthy.take()] == [0, 1]
    assert [handed.offset for handed in stopped.take()] == [2]


@pytest.mark.clause("G1", "W3")
def test_after_a_restart_nobody_is_suspected(broker: SimBroker) -> None:
    broker.produce(*"abc")
    broker.consume("stopped", lease_ms=LEASE_MS)
    broker.pass_time(ms=LEASE_MS)
    broker.kill()
    back = broker.consume("stopped", lease_ms=LEASE_MS)
    broker.pass_time(ms=LEASE_MS)
    assert len(back.take()) == 3


@pytest.mark.clause("G5", "D2", "D3")
def test_a_message_that_kills_its_worker_is_given_up(broker: SimBroker) -> None:
    produce_fragile(broker, 1, max_attempts=2, backoff_ms=100)
    deliveries = 0
    for _ in range(12):
        stream = broker.consume("crashing", lease_ms=60_000, release_on_close=True)
        deliveries += len(stream.take())
        broker.close(stream)
        broker.pass_time(ms=10)
    broker.pass_time(ms=1_000)
    (letter,) = dead(broker)
    assert (deliveries, letter.value) == (2, "0")


@pytest.mark.clause("G5", "D3", "W3")
def test_a_cold_message_is_given_up_by_a_release_too() -> None:
    """It has to be read from disk first: the release waits for that and is not lost."""
    broker = SimBroker(cold_reads=1.0)
    produce_fragile(broker, 1, max_attempts=1)
    stream = broker.consume("crashing", lease_ms=3_600_000, release_on_close=True)
    assert len(stream.take()) == 1
    broker.machine.engine.payloads.forget()
    broker.close(stream)
    broker.pass_time(ms=1_000)
    assert [letter.value for letter in dead(broker)] == ["0"]


@pytest.mark.clause("G5", "D3", "W3")
def test_what_was_not_started_is_not_counted_after_a_restart_either(broker: SimBroker) -> None:
    produce_fragile(broker, 1, max_attempts=2)
    for attempt in range(1, 6):
        handed = broker.deliver(to="worker")
        assert handed.attempt == attempt
        broker.nack(handed, started=False)
        broker.power_cut()
    assert dead(broker) == []
    broker.nack(broker.deliver(to="worker"), "boom")
    broker.nack(broker.deliver(to="worker"), "boom")
    assert len(dead(broker)) == 1


@pytest.mark.clause("G5")
def test_what_a_closing_stream_gives_back_unstarted_does_not_come_back_to_it(broker: SimBroker) -> None:
    produce_fragile(broker, 3, max_attempts=2)
    for _ in range(5):
        closing = broker.consume("closing", lease_ms=60_000, release_on_close=True)
        received = closing.take()
        assert len(received) == 3
        for handed in received:
            broker.nack(handed, started=False)
        assert closing.take() == []
        broker.close(closing)
    broker.pass_time(ms=10_000)
    assert dead(broker) == []


@pytest.mark.clause("G5")
def test_what_is_given_back_unstarted_is_there_for_anybody_at_once(broker: SimBroker) -> None:
    broker.produce("order-1")
    alone = broker.consume("alone", lease_ms=60_000)
    (handed,) = alone.take()
    broker.nack(handed, started=False)
    (again,) = alone.take()
    assert (again.attempt, again.last_error, again.at) == (2, "", handed.at)

"""A dead letter that cannot be stored: the message stays, and giving it up is tried again with backoff."""

import logging

import pytest

from driftq.core.decide.dead_letters import dead_letter_partition
from driftq.errors import NotConfirmed
from driftq.model import Envelope, Message, RetryPolicy
from driftq.testing.broker import SimBroker

_PLACE = "driftq.server.settle.dead_letters.dead_letter_partition"
ONCE = Envelope(retry_policy=RetryPolicy(max_attempts=1))


def no_such_partition(original: int, *, partitions: int) -> int:
    """As if a dead letter were meant for a partition that is not there, so that it is refused."""
    return partitions


def letters(broker: SimBroker) -> int:
    topics = broker.machine.engine.state.topics
    return topics["dlq.orders"].next_offset if "dlq.orders" in topics else 0


def lag_of(broker: SimBroker, name: str) -> int:
    return sum(group.lag for group in broker.view().groups if group.group == name)


def lag(broker: SimBroker) -> int:
    return lag_of(broker, "workers")


@pytest.mark.clause("D4")
def test_a_message_stays_until_its_dead_letter_is_stored(
    broker: SimBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    broker.produce_messages([Message(topic="orders", value="v", envelope=ONCE)])
    stream = broker.consume("w", lease_ms=1_000)
    stream.take()
    monkeypatch.setattr(_PLACE, no_such_partition)
    with caplog.at_level(logging.ERROR, logger="driftq.engine"):
        broker.pass_time(ms=1_000)
        assert (letters(broker), lag(broker)) == (0, 1)
        assert "orders/0 offset 0 for group workers is not stored" in caplog.text

        engine, tries = broker.machine.engine, [len(caplog.records)]
        commits = engine.counters.commits
        for _ in range(4):
            broker.pass_time(ms=900)
            tries.append(len(caplog.records) - sum(tries))
    assert engine.counters.commits == commits, "something was appended meanwhile"
    assert tries == [1, 3, 1, 0, 1], "at once, then after 100, 200, 400, 800 and 1,600 ms"
    assert stream.take() == []

    monkeypatch.setattr(_PLACE, dead_letter_partition)
    broker.pass_time(ms=5_000)
    assert (letters(broker), lag(broker)) == (1, 0)
    broker.power_cut()
    assert (letters(broker), lag(broker)) == (1, 0)


@pytest.mark.clause("D4")
def test_a_nack_whose_dead_letter_is_not_stored_is_not_confirmed(
    broker: SimBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.produce_messages([Message(topic="orders", value="v", envelope=ONCE)])
    handed = broker.deliver(to="w", lease_ms=60_000)
    monkeypatch.setattr(_PLACE, no_such_partition)
    with pytest.raises(NotConfirmed):
        broker.nack(handed, "broken")
    assert (letters(broker), lag(broker)) == (0, 1)
    monkeypatch.setattr(_PLACE, dead_letter_partition)
    broker.nack(handed, "broken")
    assert (letters(broker), lag(broker)) == (1, 0)


@pytest.mark.clause("D4", "P3")
def test_a_late_message_whose_dead_letter_is_not_stored_holds_its_group_and_no_other(
    broker: SimBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    deadline = Envelope(deadline="2024-01-01T00:00:00Z")
    assert broker.clock.now() < 1_704_067_200_000
    broker.produce_messages([Message(topic="orders", value="late", envelope=deadline)])
    broker.clock.advance_to(1_704_067_200_001)
    monkeypatch.setattr(_PLACE, no_such_partition)
    stream = broker.consume("w", lease_ms=60_000)
    broker.produce("next")
    broker.pass_time(ms=10_000)
    assert (letters(broker), stream.take()) == (0, [])
    monkeypatch.setattr(_PLACE, dead_letter_partition)
    broker.pass_time(ms=5_000)
    assert letters(broker) == 1
    assert [handed.value for handed in stream.take()] == ["next"]


@pytest.mark.clause("D4", "W4")
def test_a_message_that_the_disk_does_not_give_is_not_given_up(
    broker: SimBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.produce_messages([Message(topic="orders", value="v", envelope=ONCE)])
    broker.consume("w", lease_ms=1_000)
    broker.machine.engine.payloads.forget()
    with monkeypatch.context() as broken:

        def unreadable(self: object, segment: int, position: int, size: int) -> bytes:
            raise OSError(5, "Input/output error")

        broken.setattr("driftq.log.log.Log.read", unreadable)
        broken.setattr("driftq.log.log.Log.try_read", unreadable)
        broker.pass_time(ms=5_000)
        assert (letters(broker), lag(broker)) == (0, 1)
        assert broker.machine.engine.refusal is None
    broker.pass_time(ms=5_000)
    assert (letters(broker), lag(broker)) == (1, 0)


@pytest.mark.clause("P3", "D4", "D6")
def test_a_late_message_in_front_of_one_for_another_group_is_not_lost_while_it_is_read(
    broker: SimBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind it lies a redriven message that passes this group by, which must not take it along."""
    deadline = Envelope(deadline="2024-01-01T00:00:00Z")
    broker.produce_messages([Message(topic="orders", value="bad", envelope=ONCE)])
    broker.nack(broker.deliver(to="w", group="other"), "broken")
    broker.ack(broker.deliver(to="w"))
    broker.produce_messages([Message(topic="orders", value="late", envelope=deadline)])
    redriven = broker.redrive([0])
    assert redriven.sent == [0]
    broker.clock.advance_to(1_704_067_200_001)
    broker.machine.engine.payloads.forget()
    monkeypatch.setattr("driftq.log.log.Log.try_read", lambda *given: None)  # Nothing is in the page cache.
    stream = broker.consume("w")
    broker.pass_time(ms=5_000)
    assert (letters(broker), stream.take(), lag_of(broker, "workers")) == (2, [], 0)

"""Stories about a disk that fails or lies: nothing is confirmed that is not there."""

import errno
import logging

import pytest

from driftq.errors import (
    NotConfirmed,
    WritingStopped,
)
from driftq.model import Envelope, Message
from driftq.testing.broker import SimBroker


@pytest.mark.clause("P1", "W1")
def test_a_failed_sync_confirms_nothing_and_the_broker_goes_on(
    broker: SimBroker, caplog: pytest.LogCaptureFixture
) -> None:
    stream = broker.consume("worker-a")
    broker.machine.folder.fail_next("sync", error=errno.EIO)
    with caplog.at_level(logging.CRITICAL + 1, logger="driftq"), pytest.raises(NotConfirmed):
        broker.produce("lost")
    assert stream.take() == []
    assert broker.produce("kept") == [0]
    assert [handed.value for handed in stream.take()] == ["kept"]


@pytest.mark.clause("P1")
def test_when_the_log_cannot_be_cut_back_nothing_is_answered_any_more(
    broker: SimBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="driftq")
    broker.produce("kept")
    broker.deliver(to="worker-a")
    broker.machine.folder.fail_next("sync")
    broker.machine.folder.fail_next("truncate")
    with pytest.raises(NotConfirmed):
        broker.produce("lost")
    with pytest.raises(WritingStopped):
        broker.produce("late")
    with pytest.raises(WritingStopped):
        broker.view()
    broker.pass_time(ms=10_000)
    broker.kill()
    broker.pass_time(ms=broker.limits.ack_timeout_ms)
    assert "kept" in [handed.value for handed in broker.consume("worker-b").take()]


def _damage_first_message(broker: SimBroker, text: bytes) -> None:
    """Change one bit of it on the disk and forget the copy in memory."""
    (name,) = broker.machine.folder.names()
    file = broker.machine.folder.open(name)
    file.flip(file.read_at(0, file.size()).index(text))
    broker.machine.engine.payloads.forget()


@pytest.mark.clause("W4")
def test_a_damaged_message_is_not_delivered_and_stops_the_server(broker: SimBroker) -> None:
    broker.produce("precious")
    _damage_first_message(broker, b"precious")
    stream = broker.consume("worker-a")
    assert stream.take() == []
    assert len(broker.damages) == 1
    with pytest.raises(WritingStopped):
        broker.produce("more")
    broker.pass_time(ms=60_000)


@pytest.mark.clause("W4", "I2")
def test_a_duplicate_of_a_damaged_message_is_not_confirmed(broker: SimBroker) -> None:
    message = Message(topic="orders", value="precious", envelope=Envelope(idempotency_key="k"))
    broker.produce_messages([message])
    _damage_first_message(broker, b"precious")
    with pytest.raises(NotConfirmed):
        broker.produce_messages([message])
    assert len(broker.damages) == 1

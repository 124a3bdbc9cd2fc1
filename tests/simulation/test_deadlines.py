"""Retries whose deadline has passed meanwhile are given up, however few may be in flight."""

import pytest

from driftq.model import Envelope, Message
from driftq.model.options.limits import Limits
from driftq.model.time import rfc3339
from driftq.testing.broker import SimBroker


@pytest.mark.clause("P3")
def test_what_is_too_late_behind_what_is_too_late_is_not_delivered() -> None:
    broker = SimBroker(limits=Limits(in_flight_max=2))
    envelope = Envelope(deadline=rfc3339(broker.clock.now() + 1_500))
    broker.produce_messages([Message(topic="orders", value=f"{n}", envelope=envelope) for n in range(5)])
    stream = broker.consume("worker", lease_ms=60_000)
    failed = 0
    while received := stream.take():
        for handed in received:
            failed += 1
            broker.nack(handed, "boom")
    broker.close(stream)
    assert failed == 5
    broker.pass_time(ms=2_000)
    assert broker.consume("worker", lease_ms=60_000).take() == []
    assert broker.view().groups[0].lag == 0

"""Nothing is done over and over: not for a message that is always nacked, not on a disk that always fails."""

import errno
import logging

import pytest

from driftq.errors import NotConfirmed
from driftq.model import Envelope, Message, RetryPolicy
from driftq.testing.broker import SimBroker
from driftq.testing.disk import Operation

MINUTE_MS = 60_000
TICKS = MINUTE_MS // 200
"""How often the simulated server looks after its folder in a minute."""


def log_size(broker: SimBroker) -> dict[str, int]:
    folder = broker.machine.folder
    return {name: folder.open(name).size() for name in folder.names()}


def calls_in_a_minute(broker: SimBroker) -> int:
    before = broker.machine.loop.calls
    broker.pass_time(ms=MINUTE_MS)
    return broker.machine.loop.calls - before


@pytest.mark.clause("D2", "A5")
def test_a_nack_loop_without_a_policy_makes_few_deliveries(broker: SimBroker) -> None:
    broker.produce("poison")
    stream = broker.consume("worker-a")
    in_each_second = []
    for _ in range(20):
        handed = 0
        for _ in range(1_000):
            for delivery in stream.take():
                handed += 1
                broker.nack(delivery, "no")
            broker.pass_time(ms=1)
        in_each_second.append(handed)
    assert 1 < max(in_each_second) < 20
    assert sum(in_each_second[10:]) <= 4, "by then it waits five seconds each time"


@pytest.mark.clause("D4")
@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("nacked", [False, True], ids=["expires", "is nacked"])
def test_a_dead_letter_that_cannot_be_written_is_tried_with_backoff_and_appends_nothing(
    broker: SimBroker, caplog: pytest.LogCaptureFixture, operation: Operation, error: int, nacked: bool
) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="driftq")
    broker.pass_time(ms=1_000)  # The next segment's file is made ahead.
    policy = RetryPolicy(max_attempts=1)
    broker.produce_messages([Message(topic="orders", value="poison", envelope=Envelope(retry_policy=policy))])
    handed = broker.deliver(to="worker-a")
    before, disk, counters = log_size(broker), broker.machine.folder, broker.machine.engine.counters
    disk.fail_next(operation, error=error)
    if nacked:
        with pytest.raises(NotConfirmed):
            broker.nack(handed, "no")
        disk.fail_next(operation, error=error)
    calls, failures = broker.machine.loop.calls, counters.commit_failures
    for _ in range(MINUTE_MS // 10):
        broker.pass_time(ms=10)
        if counters.commit_failures > failures:  # The cut worked; the next try shall fail as well.
            failures = counters.commit_failures
            disk.fail_next(operation, error=error)
    assert 10 <= failures <= 20, "every five seconds in the end"
    assert broker.machine.loop.calls - calls < 10 * TICKS
    assert log_size(broker) == before
    assert "dlq.orders" not in broker.machine.engine.state.topics
    disk.mend()
    broker.pass_time(ms=5_000)
    assert broker.view("dlq.orders").partitions[0].messages == 1
    assert broker.view().groups[0].lag == 0
    assert calls_in_a_minute(broker) < 10 * TICKS


@pytest.mark.clause("P1", "D4")
def test_a_server_that_has_stopped_writing_waits_for_nothing(
    broker: SimBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL + 1, logger="driftq")
    broker.produce("order-1")
    broker.deliver(to="worker-a")
    broker.machine.folder.fail_next("sync")
    broker.machine.folder.fail_next("truncate")
    with pytest.raises(NotConfirmed):
        broker.produce("order-2")
    assert calls_in_a_minute(broker) < TICKS


@pytest.mark.clause("G5", "T7")
def test_an_idle_server_only_looks_after_its_folder(broker: SimBroker) -> None:
    broker.produce("order-1", "order-2")
    settled, leased = broker.consume("worker-a", lease_ms=3_600_000).take()
    broker.ack(settled)
    assert leased.attempt == 1
    broker.pass_time(ms=MINUTE_MS)
    steps = broker.machine.folder.steps
    assert calls_in_a_minute(broker) < 10 * TICKS
    assert broker.machine.folder.steps == steps, "nothing was written"

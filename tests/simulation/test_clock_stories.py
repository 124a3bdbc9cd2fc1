"""Stories about clocks that are wrong: instants that users give go by the wall clock, the rest does not."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from driftq.core.commands import Nack
from driftq.errors import InvalidArgument
from driftq.model import Envelope, Message
from driftq.model.job import JobRequest
from driftq.model.options.limits import Limits
from driftq.model.time import rfc3339
from driftq.model.wire.jobs import EnqueuedJob
from driftq.server.jobs.requests import ClaimRequest, EnqueueRequest, JobsGranted
from driftq.server.requests import NackRequest
from driftq.testing.broker import Handed, SimBroker

SECOND_MS = 1_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
TICK_MS = 200
"""How often the simulated server looks after its folder, and at its clock."""


class ClockBroker(SimBroker):
    """Messages with deadlines, and jobs that want to run at an instant."""

    @property
    def wall(self) -> int:
        return self.clock.machine_wall()

    def produce_until(self, value: str, deadline: int) -> Any:
        envelope = Envelope(deadline=rfc3339(deadline))
        (outcome,) = self.produce_messages([Message(topic="orders", value=value, envelope=envelope)])
        return outcome

    def reject(self, handed: Handed) -> None:
        nack = Nack(handed.owner, handed.partition, handed.offset, "no", handed.attempt, retryable=False)
        self._ask(
            lambda reply: self.machine.engine.submit(NackRequest(handed.topic, handed.group, nack, reply))
        )

    def enqueue(self, *, run_at: int | None = None) -> EnqueuedJob:
        job = JobRequest(queue="mail", task="send", payload=msgspec.Raw(b"1"), run_at=run_at)
        (outcome,) = self._ask(lambda reply: self.machine.engine.submit(EnqueueRequest([job], reply)))
        assert isinstance(outcome, EnqueuedJob)
        return outcome

    def claim(self, *, lease_ms: int = MINUTE_MS) -> list[int]:
        """Offsets of what is ready."""
        granted = self._ask(lambda reply: self._claim(reply, until=0, lease_ms=lease_ms))
        return granted.record.offsets if isinstance(granted, JobsGranted) else []

    def wait_for_work(self) -> list[int]:
        """A claim that waits; the list is filled with the time by the wall clock when it is answered."""
        answered: list[int] = []
        self._claim(lambda granted: answered.append(self.wall), until=self.clock.now() + 2 * HOUR_MS)
        self.pass_time(ms=0)
        return answered

    def _claim(self, reply: Any, *, until: int, lease_ms: int = MINUTE_MS) -> None:
        self.machine.engine.submit(ClaimRequest(["mail"], "w", lease_ms, 10, until, reply))

    def live_a_day_ahead(self) -> None:
        """One start with the clock a day ahead, which leaves its mark in the log; then the clock is right."""
        self.kill(wall_set_by_ms=DAY_MS)
        self.create_topic("tomorrow")
        self.kill(wall_set_by_ms=-DAY_MS)
        assert self.clock.now() >= self.wall + DAY_MS


@pytest.fixture
def broker() -> ClockBroker:
    return ClockBroker()


@pytest.mark.clause("W9", "P2", "P3")
def test_after_a_start_a_day_ahead_deadlines_mean_what_the_clock_says(broker: ClockBroker) -> None:
    broker.live_a_day_ahead()
    assert broker.produce_until("order-1", broker.wall + SECOND_MS) == (0, 0)
    assert broker.produce_until("order-2", broker.wall + HOUR_MS) == (0, 1)
    assert isinstance(broker.produce_until("order-3", broker.wall), InvalidArgument)
    broker.pass_time(ms=SECOND_MS)
    assert [handed.value for handed in broker.consume("worker").take()] == ["order-2"]
    (letter,) = broker.consume("audit", topic="dlq.orders").take()
    assert letter.value == "order-1"


@pytest.mark.clause("W9", "J11")
def test_after_a_start_a_day_ahead_jobs_wait_for_their_instant(broker: ClockBroker) -> None:
    broker.live_a_day_ahead()
    assert broker.enqueue(run_at=broker.wall + HOUR_MS).state == "scheduled"
    assert broker.enqueue().state == "ready"
    assert broker.enqueue(run_at=broker.wall - 1).state == "ready"
    assert broker.claim(lease_ms=2 * HOUR_MS) == [1, 2]
    due, answered = broker.wall + HOUR_MS, broker.wait_for_work()
    broker.pass_time(ms=HOUR_MS - 1)
    assert answered == []
    broker.pass_time(ms=1)
    assert answered == [due], "to the millisecond"


@pytest.mark.clause("W9", "D6")
def test_a_redrive_keeps_a_deadline_that_is_ahead_by_the_clock(broker: ClockBroker) -> None:
    broker.live_a_day_ahead()
    deadline = broker.wall + HOUR_MS
    broker.produce_until("order-1", deadline)
    broker.reject(broker.deliver(to="worker"))
    broker.redrive([0])
    index = broker.machine.engine.state.topics["orders"].partitions[0].index
    assert index.specials.deadline_at(1) == deadline


@pytest.mark.clause("W9")
def test_a_log_ahead_of_the_clock_is_an_error_at_start(
    broker: ClockBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.kill(wall_set_by_ms=-MINUTE_MS)
    assert caplog.records == []
    broker.live_a_day_ahead()
    (told,) = caplog.records
    assert told.levelno == logging.ERROR
    assert "ahead of this machine's clock" in told.getMessage()


@pytest.mark.clause("W9", "P2", "P3", "J11")
def test_a_forward_step_moves_no_deadline_and_no_job_for_a_minute(
    broker: ClockBroker, caplog: pytest.LogCaptureFixture
) -> None:
    soon = broker.wall + 30 * MINUTE_MS
    broker.produce_until("order-1", soon)
    broker.enqueue(run_at=soon)
    broker.clock.set_wall(by_ms=HOUR_MS)
    broker.pass_time(ms=TICK_MS)
    assert [record.levelno for record in caplog.records] == [logging.ERROR], "nobody had to ask"
    assert broker.produce_until("order-2", soon) == (0, 1)
    assert [handed.value for handed in broker.consume("worker").take()] == ["order-1", "order-2"]
    assert broker.claim() == []
    broker.pass_time(ms=MINUTE_MS)
    assert broker.claim() == [0]
    assert isinstance(broker.produce_until("order-3", soon), InvalidArgument)


@pytest.mark.clause("W9", "P3", "J11")
def test_a_step_that_is_taken_back_in_time_has_moved_nothing(broker: ClockBroker) -> None:
    soon = broker.wall + 30 * MINUTE_MS
    broker.enqueue(run_at=soon)
    answered = broker.wait_for_work()
    broker.clock.set_wall(by_ms=HOUR_MS)
    broker.pass_time(ms=MINUTE_MS - SECOND_MS)
    broker.clock.set_wall(by_ms=-HOUR_MS)
    broker.pass_time(ms=29 * MINUTE_MS)
    assert answered == []
    broker.pass_time(ms=SECOND_MS)
    assert answered == [soon]


@pytest.mark.clause("W9", "J11")
def test_a_claim_that_waits_follows_the_clock_in_either_direction(broker: ClockBroker) -> None:
    due = broker.wall + 10 * MINUTE_MS
    broker.enqueue(run_at=due)
    answered = broker.wait_for_work()
    broker.clock.set_wall(by_ms=-5 * MINUTE_MS)
    broker.pass_time(ms=12 * MINUTE_MS)
    assert answered == []
    broker.clock.set_wall(by_ms=50 * SECOND_MS)
    broker.pass_time(ms=3 * MINUTE_MS)
    assert answered == [due]


@pytest.mark.clause("W9", "J11")
def test_a_retry_waits_for_its_backoff_wherever_the_clock_goes(broker: ClockBroker) -> None:
    broker.enqueue(run_at=broker.wall + SECOND_MS)
    broker.pass_time(ms=SECOND_MS)
    assert broker.claim() == [0]
    broker.clock.set_wall(by_ms=-DAY_MS)
    broker.pass_time(ms=2 * MINUTE_MS)
    assert broker.claim() == [0], "its lease and its backoff are over"


@pytest.mark.clause("W9", "T7")
def test_messages_are_as_old_as_the_earlier_of_both_times_says() -> None:
    broker = ClockBroker(limits=Limits(retention_ms=HOUR_MS, idempotency_ttl_ms=SECOND_MS))
    broker.produce("order-1")
    broker.live_a_day_ahead()
    broker.pass_time(ms=HOUR_MS - SECOND_MS)
    assert broker.view().partitions[0].messages == 1
    broker.pass_time(ms=2 * SECOND_MS)
    assert broker.view().partitions[0].messages == 0


@pytest.mark.clause("W9")
def test_an_idle_server_with_scheduled_jobs_and_a_held_step_does_not_spin(broker: ClockBroker) -> None:
    broker.live_a_day_ahead()
    broker.enqueue(run_at=broker.wall + HOUR_MS)
    answered = broker.wait_for_work()
    broker.clock.set_wall(by_ms=2 * HOUR_MS)
    calls = broker.machine.loop.calls
    broker.pass_time(ms=MINUTE_MS - 1)
    assert answered == []
    assert broker.machine.loop.calls - calls < 10 * MINUTE_MS // TICK_MS

"""Delayed messages on a server in virtual time: exact instants, restarts, and no cost while they wait."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from driftq.core.decide.delete import ResetTo
from driftq.model import Envelope, Message, RetryPolicy
from driftq.model.time import rfc3339
from driftq.server.requests import ResetRequest
from driftq.testing.broker import SimBroker

MANY = 100_000


def later(broker: SimBroker, value: str, *, ms: int, **envelope: Any) -> Message:
    at = rfc3339(broker.clock.machine_wall() + ms)
    return Message(topic="orders", value=value, envelope=Envelope(deliver_at=at, **envelope))


def values(stream: Any) -> list[str]:
    return [handed.value for handed in stream.take()]


@pytest.mark.clause("P9")
def test_a_delayed_message_comes_at_its_instant_and_holds_up_no_other(broker: SimBroker) -> None:
    stream = broker.consume("worker")
    begin = broker.clock.now()
    broker.produce_messages([later(broker, "in a second", ms=1_000), later(broker, "past", ms=-5_000)])
    broker.produce("plain")
    assert values(stream) == ["past", "plain"]
    broker.pass_time(ms=999)
    assert values(stream) == []
    broker.pass_time(ms=51)
    [handed] = stream.take()
    assert (handed.value, handed.attempt) == ("in a second", 1)
    assert begin + 1_000 <= handed.at <= begin + 1_050


@pytest.mark.clause("P9", "W3", "W9")
@pytest.mark.parametrize("kill", ["killed", "power cut", "clock set back", "clock set forward"])
def test_a_message_that_waits_survives(broker: SimBroker, kill: str) -> None:
    broker.consume("worker")
    broker.produce_messages([later(broker, "due before", ms=100), later(broker, "waits", ms=3_000)])
    broker.pass_time(ms=200)
    instant = broker.clock.machine_wall() + 2_800
    match kill:
        case "killed":
            broker.kill()
        case "power cut":
            broker.power_cut()
        case "clock set back":
            broker.kill(wall_set_by_ms=-60_000)
        case "clock set forward":
            broker.kill(wall_set_by_ms=2_000)
    stream = broker.consume("other", lease_ms=600_000)
    wait_ms = instant - broker.clock.machine_wall()
    broker.pass_time(ms=wait_ms - 1)
    assert "waits" not in values(stream)
    broker.pass_time(ms=51)
    assert "waits" in values(stream)


@pytest.mark.clause("P9", "G6")
def test_a_reset_meets_waiting_messages_again(broker: SimBroker) -> None:
    stream = broker.consume("worker")
    broker.produce_messages([later(broker, "soon", ms=100), later(broker, "late", ms=5_000)])
    broker.produce("plain")
    broker.pass_time(ms=150)
    for handed in stream.take():
        broker.ack(handed)
    reset(broker, "earliest")
    assert values(stream) == ["soon", "plain"], "what waits still waits, in its place for the new start"
    reset(broker, "latest")
    broker.pass_time(ms=6_000)
    assert values(stream) == [], "the group starts behind it"
    assert broker.view().groups[0].delayed == 0


def reset(broker: SimBroker, to: ResetTo) -> None:
    broker._ask(lambda reply: broker.machine.engine.submit(ResetRequest("orders", "workers", to, reply)))


@pytest.mark.clause("P9", "D4", "D7")
def test_a_dead_letter_keeps_the_instant_and_a_redrive_drops_it(broker: SimBroker) -> None:
    stream = broker.consume("worker")
    message = later(broker, "fragile", ms=1_000, retry_policy=RetryPolicy(max_attempts=1))
    broker.produce_messages([message])
    broker.pass_time(ms=1_000)
    [handed] = stream.take()
    broker.nack(handed, "boom")
    dead = broker.consume("undertaker", topic="dlq.orders")
    assert values(dead) == ["fragile"]
    broker.redrive([0])
    [again] = stream.take()
    assert (again.value, again.offset) == ("fragile", 1)


@pytest.mark.clause("P9", "P3")
def test_a_deadline_may_pass_after_the_instant(broker: SimBroker) -> None:
    broker.consume("worker")
    deadline = rfc3339(broker.clock.machine_wall() + 1_500)
    broker.produce_messages([later(broker, "late", ms=1_000, deadline=deadline)])
    broker.close(broker.consume("other", group="away"))
    broker.pass_time(ms=2_000)
    assert broker.consume("other", group="away").take() == []
    assert broker.view("dlq.orders").partitions[0].messages == 1


@pytest.mark.clause("P9")
def test_the_view_says_how_much_of_the_lag_is_delayed(broker: SimBroker) -> None:
    broker.consume("worker")
    broker.produce("plain")
    broker.produce_messages([later(broker, "waits", ms=1_000)] * 3)
    [group] = broker.view().groups
    assert (group.lag, group.delayed, group.in_flight) == (4, 3, 1)
    broker.pass_time(ms=1_000)
    [group] = broker.view().groups
    assert (group.lag, group.delayed, group.in_flight) == (4, 0, 4)


def steps_of(work: Callable[[], None]) -> int:
    """How many lines of Python, and calls of C functions, the work takes."""
    steps = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal steps
        steps += 1
        return trace

    def profile(frame: FrameType, event: str, arg: object) -> None:
        nonlocal steps
        steps += event == "c_call"

    sys.settrace(trace)
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.settrace(None)
        sys.setprofile(None)
    return steps


def a_turn_of_everything(broker: SimBroker, stream: Any) -> None:
    broker.produce("plain")
    [handed] = stream.take()
    broker.ack(handed)
    broker.pass_time(ms=10)


@pytest.mark.clause("P9")
def test_a_hundred_thousand_waiting_messages_cost_a_turn_nothing() -> None:
    costs: list[int] = []
    for count in (10, MANY):
        broker = SimBroker(segment_bytes=1 << 24)
        stream = broker.consume("worker")
        messages = [later(broker, "waits", ms=3_600_000 + number) for number in range(1_000)]
        for start in range(0, count, 1_000):
            broker.produce_messages(messages[: count - start])
        assert values(stream) == []
        a_turn_of_everything(broker, stream)
        costs.append(steps_of(lambda one=broker, two=stream: a_turn_of_everything(one, two)))  # type: ignore[misc]
        assert broker.view().groups[0].delayed == count
    few, many = costs
    assert many <= few * 1.02, costs


@pytest.mark.clause("P9")
def test_many_that_come_due_at_once_all_come(broker: SimBroker) -> None:
    stream = broker.consume("worker", prefetch=100_000)
    at = broker.clock.now() + 500
    for _ in range(3):
        broker.produce_messages([later(broker, "together", ms=500)] * 1_000)
    begin = broker.clock.now()
    got: list[int] = []
    while len(got) < 3_000 and broker.clock.now() < begin + 5_000:
        broker.pass_time(ms=1)
        for handed in stream.take():
            got.append(handed.at)
            broker.ack(handed)
    assert len(got) == 3_000
    assert at <= min(got)


@pytest.mark.clause("P9", "W9")
def test_a_clock_that_jumps_forward_for_a_moment_delivers_nothing(broker: SimBroker) -> None:
    stream = broker.consume("worker")
    broker.produce_messages([later(broker, "tomorrow", ms=3_600_000)])
    broker.clock.set_wall(by_ms=7_200_000)
    broker.pass_time(ms=30_000)
    assert values(stream) == []

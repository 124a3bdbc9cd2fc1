"""When a failed message comes again, and when it never does."""

import pytest

from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import decide_skips
from driftq.core.decide.backoff import nack_delay_ms, retry_delay_ms
from driftq.core.records import DeliveryTerms
from driftq.errors import AlreadySettled, InvalidArgument, NoCurrentDelivery
from driftq.model.options.limits import Limits
from tests.unit.core.machine import PureBroker

JITTERS = (0.0, 0.25, 0.5, 0.999, 1.0)


@pytest.mark.clause("D2")
@pytest.mark.parametrize("nacked", [True, False])
def test_a_retry_never_comes_sooner_than_asked_nor_later_than_the_cap(nacked: bool) -> None:
    terms = DeliveryTerms(backoff_ms=100, max_backoff_ms=1_000)
    for attempt in range(1, 70):
        wait = min(100 * 2 ** (attempt - 1), 1_000)
        delays = [retry_delay_ms(terms, attempt=attempt, nacked=nacked, jitter=jitter) for jitter in JITTERS]
        assert delays == sorted(delays)
        if wait < 1_000:
            assert (delays[0], delays[-1]) == (wait, min(round(wait * 1.25), 1_000))
        else:
            assert (delays[0], delays[-1]) == (750, 1_000)


@pytest.mark.clause("D2")
def test_a_policy_without_a_backoff_waits_as_if_there_were_none() -> None:
    terms = DeliveryTerms(max_attempts=9)
    assert [retry_delay_ms(terms, attempt=one, nacked=True, jitter=0.7) for one in range(1, 8)] == [
        100,
        200,
        400,
        800,
        1_600,
        3_200,
        5_000,
    ]
    assert [nack_delay_ms(one) for one in (1, 6, 7, 500)] == [100, 3_200, 5_000, 5_000]
    assert retry_delay_ms(terms, attempt=3, nacked=False, jitter=0.7) == 0


@pytest.mark.clause("D2")
def test_a_backoff_of_nothing_is_nothing() -> None:
    terms = DeliveryTerms(backoff_ms=0, max_backoff_ms=30_000)
    assert [retry_delay_ms(terms, attempt=one, nacked=True, jitter=1.0) for one in (1, 2, 50)] == [0, 0, 0]
    assert (
        retry_delay_ms(DeliveryTerms(backoff_ms=0, max_backoff_ms=0), attempt=1, nacked=True, jitter=1.0) == 0
    )


def deliver_again(broker: PureBroker, due_at: int) -> int:
    """Deliver what is due then; the number of its attempt."""
    broker.now = due_at - 1
    assert broker.deliver(("a", 1)) is None
    broker.now = due_at
    assert broker.deliver(("a", 1)) is not None
    return broker.progress().attempt_of(0)


@pytest.mark.clause("D1", "D2", "D3")
@pytest.mark.parametrize("by", ["nack", "lease"])
def test_the_last_attempt_is_the_last(broker: PureBroker, by: str) -> None:
    broker.group()
    broker.produce("v", terms=DeliveryTerms(max_attempts=3, backoff_ms=50))
    broker.deliver(("a", 1))
    for attempt in (1, 2):
        if by == "nack":
            due_at = broker.give_up_or_wait(0, f"failure {attempt}", jitter=1.0)
            assert due_at == broker.now + round(50 * 2 ** (attempt - 1) * 1.25)
        else:
            broker.now += 2_000
            ((_, due_at),) = broker.expire_or_give_up(jitter=0.0)[0].items()
            assert due_at == broker.now + 50 * 2 ** (attempt - 1)
        assert isinstance(due_at, int)
        assert deliver_again(broker, due_at) == attempt + 1
    if by == "nack":
        casualty = broker.give_up_or_wait(0, "failure 3")
        error = "failure 3"
    else:
        broker.now += 2_000
        (casualty,) = broker.expire_or_give_up()[1]
        error = "ack_timeout"
    assert casualty == DeadLettered("orders", "workers", 0, 0, 3, error, "max_attempts")
    progress = broker.progress()
    assert (progress.floor, progress.acked, progress.unsettled) == (1, 0, 0)
    broker.now += 10**9
    assert broker.deliver(("a", 1)) is None
    with pytest.raises(AlreadySettled):
        broker.nack(0)


@pytest.mark.clause("D3")
def test_an_ack_of_the_last_attempt_still_counts(broker: PureBroker) -> None:
    broker.group()
    broker.produce("v", terms=DeliveryTerms(max_attempts=1))
    broker.deliver(("a", 1))
    broker.now += 1_999
    assert broker.ack(0)[1] == [None]
    broker.now += 1
    assert broker.expire_or_give_up() == ({}, [])


@pytest.mark.clause("D3", "A6")
def test_a_reason_outlives_the_timeout_that_gives_up(broker: PureBroker) -> None:
    broker.group()
    broker.produce("v", terms=DeliveryTerms(max_attempts=2))
    broker.deliver(("a", 1))
    due_at = broker.give_up_or_wait(0, "out of milk")
    assert isinstance(due_at, int)
    deliver_again(broker, due_at)
    broker.now += 2_000
    (casualty,) = broker.expire_or_give_up()[1]
    assert (casualty.last_error, casualty.attempts) == ("out of milk", 2)


@pytest.mark.clause("D5")
def test_a_nack_can_say_that_there_is_no_hope(broker: PureBroker) -> None:
    broker.group()
    broker.produce("plain")
    broker.deliver(("a", 1))
    casualty = broker.give_up_or_wait(0, "not even wrong", retryable=False)
    assert casualty == DeadLettered("orders", "workers", 0, 0, 1, "not even wrong", "not_retryable")
    with pytest.raises(AlreadySettled):
        broker.give_up_or_wait(0)


@pytest.mark.clause("D2", "D3")
def test_no_limit_is_no_limit(broker: PureBroker) -> None:
    broker.group()
    broker.produce("v", terms=DeliveryTerms(backoff_ms=1, max_backoff_ms=1))
    broker.deliver(("a", 1))
    for attempt in range(1, 60):
        due_at = broker.give_up_or_wait(0)
        assert isinstance(due_at, int)
        assert deliver_again(broker, due_at) == attempt + 1


@pytest.mark.clause("D4", "G3")
def test_each_group_gives_up_for_itself(broker: PureBroker) -> None:
    broker.group("workers")
    broker.group("others")
    broker.produce("v", terms=DeliveryTerms(max_attempts=1))
    for group in ("workers", "others"):
        broker.deliver(("a", 1), group=group)
    assert isinstance(broker.give_up_or_wait(0), DeadLettered)
    assert broker.progress("others").unsettled == 1
    casualty = broker.give_up_or_wait(0, group="others")
    assert isinstance(casualty, DeadLettered)
    assert casualty.group == "others"


@pytest.mark.clause("P3")
def test_what_is_too_late_is_passed_over_and_given_up(broker: PureBroker) -> None:
    broker.group()
    broker.produce("in time")
    broker.produce("late", deadline=broker.now + 100)
    broker.produce("later", deadline=broker.now + 200)
    group = broker.topic.groups["workers"]
    broker.deliver(("a", 1))
    broker.now += 99
    nobody_yet = decide_skips(broker.state, broker.topic, group, 0, now=broker.now, wall=broker.wall)
    assert nobody_yet == ([], [], 3, [])
    broker.now += 1
    passed, late, end, _ = decide_skips(
        broker.state, broker.topic, group, 0, now=broker.now, wall=broker.wall
    )
    assert (passed, [one.ordinal for one in late], end) == ([], [1], 3)
    assert (late[0].reason, late[0].last_error, late[0].attempts) == (
        "deadline_exceeded",
        "deadline_exceeded",
        0,
    )


@pytest.mark.clause("P3")
def test_a_retry_that_is_too_late_is_given_up_however_many_are_due() -> None:
    broker = PureBroker()
    broker.group()
    broker.produce(*["v"] * 1_500, deadline=broker.now + 10_000)
    broker.deliver(("a", 2_000))
    broker.now += 2_000
    assert len(broker.expire_or_give_up()[0]) == 1_500
    broker.now += 8_000
    _, late, *_ = decide_skips(
        broker.state, broker.topic, broker.topic.groups["workers"], 0, now=broker.now, wall=broker.wall
    )
    assert [(one.ordinal, one.attempts) for one in late] == [(ordinal, 1) for ordinal in range(1_500)]


@pytest.mark.clause("P3")
def test_what_takes_the_place_of_a_late_retry_is_looked_at_too() -> None:
    """Two may be in flight and four are due: the two behind the late ones are late as well."""
    broker = PureBroker()
    broker.group()
    broker.produce("v", "v", "v", "v", deadline=broker.now + 10_000)
    broker.deliver(("a", 10))
    broker.now += 2_000
    assert len(broker.expire_or_give_up()[0]) == 4
    broker.now += 8_000
    broker.state.limits = Limits(in_flight_max=2)
    group = broker.topic.groups["workers"]
    _, late, *_ = decide_skips(broker.state, broker.topic, group, 0, now=broker.now, wall=broker.wall)
    assert [one.ordinal for one in late] == [0, 1, 2, 3]


@pytest.mark.clause("P2", "P3", "W9")
def test_a_deadline_is_judged_by_the_wall_clock(broker: PureBroker) -> None:
    broker.group()
    broker.wall_ahead_ms = -500
    assert broker.produce("in time", deadline=broker.now) == [(0, 0)]
    (refused,) = broker.produce("late", deadline=broker.wall)
    assert isinstance(refused, InvalidArgument)
    group = broker.topic.groups["workers"]
    broker.now += 499
    assert not decide_skips(broker.state, broker.topic, group, 0, now=broker.now, wall=broker.wall)[1]
    broker.now += 1
    _, (late,), *_ = decide_skips(broker.state, broker.topic, group, 0, now=broker.now, wall=broker.wall)
    assert late.reason == "deadline_exceeded"


@pytest.mark.clause("A1")
def test_what_waits_for_its_retry_cannot_be_given_up(broker: PureBroker) -> None:
    broker.group()
    broker.produce("v", terms=DeliveryTerms(max_attempts=5, backoff_ms=1_000))
    broker.deliver(("a", 1))
    broker.give_up_or_wait(0)
    with pytest.raises(NoCurrentDelivery):
        broker.give_up_or_wait(0, retryable=False)

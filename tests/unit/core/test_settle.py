"""The end of a delivery: who may end it, and what that changes."""

import pytest

from driftq.core.commands import Extend
from driftq.core.decide import decide_extend
from driftq.core.decide.backoff import nack_delay_ms
from driftq.errors import AlreadySettled, InvalidArgument, NoCurrentDelivery, NotOwner, StaleAttempt
from driftq.model.options.limits import LEASE_MS_MAX
from tests.unit.core.machine import PureBroker


@pytest.fixture
def delivered(broker: PureBroker) -> PureBroker:
    broker.group()
    broker.produce(*"abcd")
    broker.deliver(("a", 9))
    return broker


@pytest.mark.clause("A3", "T6")
def test_the_floor_waits_for_the_hole(delivered: PureBroker) -> None:
    progress = delivered.progress()
    delivered.ack(2, 1)
    assert (progress.floor, progress.acked, progress.ahead_count, progress.unsettled) == (0, 2, 2, 2)
    delivered.ack(0)
    assert (progress.floor, progress.acked, progress.ahead_count, progress.unsettled) == (3, 2, 0, 1)


@pytest.mark.clause("A2", "A4")
def test_only_an_ack_that_settles_something_is_a_record(delivered: PureBroker) -> None:
    records, outcomes = delivered.ack(0, 1, 0)
    assert (len(records), outcomes) == (1, [None, None, None])
    records, outcomes = delivered.ack(0, 1, owner="somebody", attempt=9)
    assert (records, outcomes) == ([], [None, None])


@pytest.mark.clause("A1")
def test_who_may_not_ack(delivered: PureBroker) -> None:
    assert isinstance(delivered.ack(0, owner="b")[1][0], NotOwner)
    assert isinstance(delivered.ack(17)[1][0], NoCurrentDelivery)
    assert isinstance(delivered.ack(0, group="unknown")[1][0], NoCurrentDelivery)
    assert isinstance(delivered.ack(-1)[1][0], InvalidArgument)
    delivered.now += 2_000
    assert isinstance(delivered.ack(0)[1][0], NoCurrentDelivery)
    assert delivered.progress().unsettled == 4


@pytest.mark.clause("A7")
def test_an_attempt_that_is_over_fences_its_owner(delivered: PureBroker) -> None:
    delivered.now += 2_000
    assert delivered.expire() == 4
    delivered.deliver(("a", 9))
    (refused,) = delivered.ack(0, attempt=1)[1]
    assert isinstance(refused, StaleAttempt)
    assert (refused.held, refused.given) == (2, 1)
    assert delivered.ack(0, attempt=2)[1] == [None]


@pytest.mark.clause("A5")
def test_a_nack_keeps_its_reason_until_the_next(delivered: PureBroker) -> None:
    delivered.nack(0, "boom")
    assert delivered.progress().errors == {0: "boom"}
    with pytest.raises(NoCurrentDelivery):
        delivered.nack(0, "again")
    delivered.now += 100
    delivered.deliver(("a", 9))
    delivered.nack(0, "")
    assert delivered.progress().errors == {0: "boom"}


@pytest.mark.clause("A6")
def test_a_timeout_is_an_error_only_where_there_is_none(delivered: PureBroker) -> None:
    delivered.nack(0, "boom")
    delivered.now += 100
    delivered.deliver(("a", 9))
    delivered.now += 2_000
    delivered.expire()
    assert delivered.progress().errors == {0: "boom", 1: "ack_timeout", 2: "ack_timeout", 3: "ack_timeout"}


@pytest.mark.clause("D2", "A5")
def test_the_wait_after_a_nack_doubles_up_to_five_seconds() -> None:
    waits = [nack_delay_ms(attempt) for attempt in range(1, 9)]
    assert waits == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]
    assert nack_delay_ms(1_000_000) == 5_000


@pytest.mark.clause("A1", "A8")
def test_an_extension_counts_from_now(delivered: PureBroker) -> None:
    group = delivered.topic.groups["workers"]
    delivered.now += 1_999
    record = decide_extend(delivered.topic, group, Extend("a", 0, 1, 5_000), now=delivered.now)
    delivered.fold(record)
    assert delivered.progress().leases.leased[1].until == delivered.now + 5_000
    delivered.now += 1
    assert delivered.expire() == 3
    for lease_ms in (0, LEASE_MS_MAX + 1):
        with pytest.raises(InvalidArgument):
            decide_extend(delivered.topic, group, Extend("a", 0, 1, lease_ms), now=delivered.now)


@pytest.mark.clause("A1")
def test_what_is_settled_is_neither_nacked_nor_extended(delivered: PureBroker) -> None:
    delivered.ack(1)
    with pytest.raises(AlreadySettled):
        delivered.nack(1)
    with pytest.raises(AlreadySettled):
        decide_extend(
            delivered.topic, delivered.topic.groups["workers"], Extend("a", 0, 1, 10), now=delivered.now
        )


@pytest.mark.clause("G5")
def test_a_consumer_gives_back_only_what_it_holds(delivered: PureBroker) -> None:
    progress = delivered.progress()
    block = progress.leases.leased[0]
    other = type(block.credit)()
    mine = type(block.credit)()
    block.charge_to(mine, size_bytes=4)
    assert delivered.release(other) == ({}, [])
    assert delivered.release(mine) == (dict.fromkeys(range(4), delivered.now), [])
    assert progress.waiting == dict.fromkeys(range(4), delivered.now)
    assert (mine.in_flight, mine.in_flight_bytes, progress.errors) == (0, 0, {})

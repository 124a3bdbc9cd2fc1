"""What a consumer gives back: released when it goes, or unstarted when nobody began to handle it."""

import pytest

from driftq.core.dead_lettered import DeadLettered
from driftq.core.lease import Credit
from driftq.core.records import DeliveryTerms
from driftq.errors import InvalidArgument
from tests.unit.core.machine import PureBroker


def hand_over(broker: PureBroker) -> Credit:
    """Deliver what is due to a consumer of its own; what it holds."""
    assert broker.deliver(("a", 9)) is not None
    credit = Credit()
    for block in {id(block): block for block in broker.progress().leases.leased.values()}.values():
        block.charge_to(credit, size_bytes=0)
    return credit


@pytest.mark.clause("G5", "D2")
@pytest.mark.parametrize(("terms", "second_ms"), [(None, 200), (DeliveryTerms(backoff_ms=50), 100)])
def test_the_first_release_is_due_at_once_and_the_next_waits_like_a_nack(
    broker: PureBroker, terms: DeliveryTerms | None, second_ms: int
) -> None:
    broker.group()
    broker.produce("v", terms=terms)
    assert broker.release(hand_over(broker)) == ({0: broker.now}, [])
    assert broker.release(hand_over(broker)) == ({0: broker.now + second_ms}, [])
    assert broker.deliver(("a", 9)) is None


@pytest.mark.clause("G5", "D3")
def test_a_release_of_the_last_try_gives_the_message_up(broker: PureBroker) -> None:
    broker.group()
    broker.produce("poison", "plain")
    broker.produce("poison", terms=DeliveryTerms(max_attempts=2, backoff_ms=50))
    broker.release(hand_over(broker))
    due, casualties = broker.release(hand_over(broker))
    assert sorted(due) == [0, 1]
    assert casualties == [DeadLettered("orders", "workers", 0, 2, 2, "consumer_closed", "max_attempts")]
    assert broker.progress().is_settled(2)


@pytest.mark.clause("G5", "D3")
def test_what_failed_before_counts_when_it_is_released(broker: PureBroker) -> None:
    broker.group()
    broker.produce("v", terms=DeliveryTerms(max_attempts=2, backoff_ms=50))
    broker.deliver(("a", 9))
    broker.nack(0, "boom")
    broker.now += 50
    (casualty,) = broker.release(hand_over(broker))[1]
    assert (casualty.attempts, casualty.last_error) == (2, "consumer_closed")


@pytest.mark.clause("G5", "D3", "A7")
def test_what_nobody_started_is_due_at_once_and_costs_no_try(broker: PureBroker) -> None:
    broker.group()
    broker.produce("v", terms=DeliveryTerms(max_attempts=2, backoff_ms=50))
    for attempt in range(1, 8):
        assert broker.deliver(("a", 9)) is not None
        assert broker.progress().attempt_of(0) == attempt, "attempt numbers are fencing tokens"
        broker.nack(0, started=False, attempt=attempt)
        assert broker.progress().waiting == {0: broker.now}
        assert broker.progress().errors == {}
    broker.deliver(("a", 9))
    assert broker.give_up_or_wait(0, "boom") == broker.now + 50, "the first try waits as the first"
    broker.now += 50
    broker.deliver(("a", 9))
    assert broker.give_up_or_wait(0, "boom") == DeadLettered(
        "orders", "workers", 0, 0, 9, "boom", "max_attempts"
    )
    assert broker.progress().uncounted == {}


@pytest.mark.clause("D2", "D3")
def test_a_lapsed_lease_counts_tries_too(broker: PureBroker) -> None:
    broker.group()
    broker.produce("v", terms=DeliveryTerms(max_attempts=2, backoff_ms=50))
    broker.deliver(("a", 9))
    broker.nack(0, started=False)
    broker.deliver(("a", 9))
    broker.now += 2_000
    assert broker.expire_or_give_up() == ({0: broker.now + 50}, [])


@pytest.mark.clause("G5")
def test_what_was_not_started_has_not_failed(broker: PureBroker) -> None:
    broker.group()
    broker.produce("v")
    broker.deliver(("a", 9))
    with pytest.raises(InvalidArgument, match="reason"):
        broker.nack(0, "boom", started=False)
    with pytest.raises(InvalidArgument, match="retryable"):
        broker.nack(0, retryable=False, started=False)
    assert broker.progress().waiting == {}

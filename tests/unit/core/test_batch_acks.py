"""Many acks at once are judged as each of them alone would be."""

import pytest

from driftq.core.commands import Ack
from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import decide_acks
from driftq.core.decide.backoff import retry_delay_ms
from driftq.core.records import DeliveryTerms
from driftq.errors import NoCurrentDelivery, NotOwner, StaleAttempt
from tests.unit.core.machine import PureBroker


@pytest.fixture
def delivered(broker: PureBroker) -> PureBroker:
    broker.group()
    broker.produce(*"abcd")
    broker.deliver(("a", 9))
    return broker


@pytest.mark.clause("A1", "A9")
def test_a_batch_is_in_time_until_the_lease_ends_and_not_at_its_end(delivered: PureBroker) -> None:
    delivered.now += 1_999
    assert delivered.ack(0, 1)[1] == [None, None]
    delivered.now += 1
    records, outcomes = delivered.ack(2, 3)
    assert (records, [type(one) for one in outcomes]) == ([], [NoCurrentDelivery] * 2)
    assert delivered.progress().unsettled == 2


@pytest.mark.clause("A1", "A9")
def test_a_batch_of_another_owner_settles_nothing(delivered: PureBroker) -> None:
    records, outcomes = delivered.ack(0, 1, owner="b")
    assert (records, [type(one) for one in outcomes]) == ([], [NotOwner] * 2)


@pytest.mark.clause("A7", "A9")
def test_a_batch_for_an_old_attempt_settles_nothing(delivered: PureBroker) -> None:
    delivered.now += 2_000
    delivered.expire()
    delivered.deliver(("a", 9))
    records, outcomes = delivered.ack(0, 1, attempt=1)
    assert (records, [type(one) for one in outcomes]) == ([], [StaleAttempt] * 2)
    assert delivered.ack(0, 1, attempt=2)[1] == [None, None]


@pytest.mark.clause("A9")
def test_two_owners_in_one_batch_are_judged_apart(delivered: PureBroker) -> None:
    acks = [Ack("a", 0, 0), Ack("b", 0, 1), Ack("a", 0, 2, attempt=7)]
    group = delivered.topic.groups["workers"]
    (record,), outcomes = decide_acks(delivered.topic, group, acks, now=delivered.now)
    assert [type(one) for one in outcomes] == [type(None), NotOwner, StaleAttempt]
    assert (record.base, len(record.deltas)) == (0, 4)


@pytest.mark.clause("A9", "A1")
def test_one_ack_of_a_batch_that_is_not_the_owners_is_refused_alone(delivered: PureBroker) -> None:
    acks = [Ack("a", 0, 0), Ack("b", 0, 1)]
    group = delivered.topic.groups["workers"]
    _, outcomes = decide_acks(delivered.topic, group, acks, now=delivered.now)
    assert [type(one) for one in outcomes] == [type(None), NotOwner]


@pytest.mark.clause("A9", "A4")
def test_an_ack_twice_in_a_batch_settles_once(delivered: PureBroker) -> None:
    (record,), outcomes = delivered.ack(1, 2, 1)
    assert (len(record.deltas) // 4, outcomes) == (2, [None, None, None])
    progress = delivered.progress()
    assert (progress.ahead_count, progress.unsettled) == (2, 2)


@pytest.mark.clause("A9", "T6")
def test_an_ack_of_a_batch_that_names_another_partition_is_refused_alone() -> None:
    broker = PureBroker(partitions=2)
    broker.group()
    broker.produce("v", "w", override=0)
    broker.produce("x", override=1)
    for partition in (0, 1):
        broker.deliver(("a", 9), partition=partition)
    acks = [Ack("a", 0, 0), Ack("a", 1, 1), Ack("a", 1, 2)]
    group = broker.topic.groups["workers"]
    records, outcomes = decide_acks(broker.topic, group, acks, now=broker.now)
    assert [type(one) for one in outcomes] == [type(None), NoCurrentDelivery, type(None)]
    assert {record.partition: len(record.deltas) // 4 for record in records} == {0: 1, 1: 1}
    records, outcomes = decide_acks(broker.topic, group, acks[:2], now=broker.now)
    assert isinstance(outcomes[1], NoCurrentDelivery)


@pytest.mark.clause("D3", "A5")
def test_a_last_nack_without_a_reason_keeps_the_reason_before(broker: PureBroker) -> None:
    broker.group()
    broker.produce("v", terms=DeliveryTerms(max_attempts=2))
    broker.deliver(("a", 9))
    broker.nack(0, "boom")
    broker.now += 100
    broker.deliver(("a", 9))
    casualty = broker.give_up_or_wait(0, "")
    assert isinstance(casualty, DeadLettered)
    assert casualty.last_error == "boom"


@pytest.mark.clause("D2", "G5")
@pytest.mark.parametrize(("terms", "wait_ms"), [(None, 0), (DeliveryTerms(backoff_ms=70), 70)])
def test_a_retry_counts_from_the_end_of_the_lease_however_late_that_is_seen(
    broker: PureBroker, terms: DeliveryTerms | None, wait_ms: int
) -> None:
    broker.group()
    broker.produce("v", terms=terms)
    broker.deliver(("a", 9))
    ended_at = broker.now + 2_000
    broker.now += 5_000
    assert broker.expire_or_give_up() == ({0: ended_at + wait_ms}, [])


@pytest.mark.clause("T7", "A3")
def test_what_is_dropped_was_counted_once(delivered: PureBroker) -> None:
    """Retention takes a message that was settled ahead: what is left is counted without it."""
    delivered.ack(1)
    progress = delivered.progress()
    progress.skip_to(2)
    assert (progress.floor, progress.ahead_count, progress.ahead_bytes, progress.unsettled) == (2, 0, 0, 2)


@pytest.mark.clause("D2")
def test_jitter_never_goes_beyond_the_cap() -> None:
    terms = DeliveryTerms(backoff_ms=100, max_backoff_ms=900)
    waits = [retry_delay_ms(terms, attempt=4, nacked=True, jitter=jitter) for jitter in (0.0, 0.4, 0.6, 1.0)]
    assert waits == [800, 880, 900, 900]

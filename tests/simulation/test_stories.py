"""Short stories about one broker: leases, attempts, retries, restarts."""

import pytest

from driftq.core.decide import Duplicate
from driftq.errors import (
    AlreadySettled,
    NoCurrentDelivery,
    NotOwner,
    StaleAttempt,
)
from driftq.model import Envelope, Message
from driftq.model.options.limits import Limits
from driftq.testing.broker import SimBroker


@pytest.mark.clause("A6", "A7", "D1")
def test_expired_delivery_goes_to_another_owner_with_a_newer_attempt(broker: SimBroker) -> None:
    broker.produce("order-1")
    first = broker.deliver(to="worker-a")
    broker.pass_time(ms=broker.limits.ack_timeout_ms)
    second = broker.deliver(to="worker-b")
    assert (first.attempt, second.attempt) == (1, 2)
    assert (first.last_error, second.last_error) == ("", "ack_timeout")
    with pytest.raises(NotOwner):
        broker.ack(first)
    broker.ack(second)


@pytest.mark.clause("A7")
def test_the_same_owner_cannot_settle_with_an_old_attempt(broker: SimBroker) -> None:
    broker.produce("order-1")
    first = broker.deliver(to="worker-a")
    broker.pass_time(ms=broker.limits.ack_timeout_ms)
    broker.deliver(to="worker-a")
    with pytest.raises(StaleAttempt) as refused:
        broker.ack(first)
    assert (refused.value.held, refused.value.given) == (2, 1)


@pytest.mark.clause("G5")
def test_a_lease_ends_on_the_millisecond(broker: SimBroker) -> None:
    broker.produce("order-1")
    stream = broker.consume("worker-a", lease_ms=1_000)
    began = broker.clock.now()
    stream.take()
    broker.pass_time(ms=999)
    assert stream.take() == []
    broker.pass_time(ms=1)
    (again,) = stream.take()
    assert again.at == began + 1_000


@pytest.mark.clause("A5", "D2", "G5")
def test_retries_after_nacks_come_when_their_backoff_is_over(broker: SimBroker) -> None:
    broker.produce("order-1")
    stream = broker.consume("worker-a", lease_ms=60_000)
    waits = []
    for _ in range(8):
        (handed,) = stream.take()
        broker.nack(handed, "boom")
        nacked_at = broker.clock.now()
        broker.pass_time(ms=6_000)
        waits.append(stream.received[0].at - nacked_at)
        assert stream.received[0].last_error == "boom"
    assert waits == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]


@pytest.mark.clause("G5", "W3")
def test_a_worker_that_outlives_the_server_can_still_ack(broker: SimBroker) -> None:
    broker.produce("order-1")
    handed = broker.deliver(to="worker-a")
    broker.power_cut()
    with pytest.raises(NotOwner):
        broker.ack(handed, owner="worker-b")
    broker.ack(handed)
    assert broker.view().groups[0].lag == 0


@pytest.mark.clause("A3", "W2")
def test_an_ack_out_of_order_survives_and_leaves_its_hole(broker: SimBroker) -> None:
    broker.produce("a", "b", "c")
    handed = broker.consume("worker-a").take()
    broker.ack(handed[2])
    broker.power_cut()
    view = broker.view().groups[0]
    assert (view.acked, view.floor, view.lag) == (2, 0, 2)
    stream = broker.consume("worker-b")
    broker.pass_time(ms=broker.limits.ack_timeout_ms)
    assert [(one.value, one.attempt) for one in stream.take()] == [("a", 2), ("b", 2)]


@pytest.mark.clause("A1", "A2")
def test_what_is_settled_can_be_acked_again_and_nothing_else(broker: SimBroker) -> None:
    broker.produce("order-1")
    handed = broker.deliver(to="worker-a")
    broker.ack(handed)
    before = broker.machine.engine.counters.commits
    broker.ack(handed)
    broker.ack(handed, owner="worker-b", attempt=7)
    assert broker.machine.engine.counters.commits == before
    with pytest.raises(AlreadySettled):
        broker.nack(handed)
    with pytest.raises(AlreadySettled):
        broker.extend(handed, lease_ms=10)


@pytest.mark.clause("A8", "A1")
def test_an_extended_lease_lasts_from_now(broker: SimBroker) -> None:
    broker.produce("order-1")
    handed = broker.deliver(to="worker-a", lease_ms=1_000)
    broker.pass_time(ms=900)
    broker.extend(handed, lease_ms=1_000)
    broker.pass_time(ms=999)
    broker.extend(handed, lease_ms=100)
    broker.pass_time(ms=100)
    with pytest.raises(NoCurrentDelivery):
        broker.ack(handed)


@pytest.mark.clause("G5")
def test_release_on_close_gives_messages_back_at_once(broker: SimBroker) -> None:
    broker.produce("order-1")
    leaving = broker.consume("worker-a", release_on_close=True)
    staying = broker.consume("worker-b")
    assert staying.take() == []
    broker.close(leaving)
    (again,) = staying.take()
    assert (again.attempt, again.last_error) == (2, "")


@pytest.mark.clause("G1")
def test_messages_go_round(broker: SimBroker) -> None:
    streams = [broker.consume(owner) for owner in ("a", "b", "c")]
    for number in range(7):
        broker.produce(f"single-{number}")
    broker.produce(*[f"batch-{number}" for number in range(5)])
    received = [[handed.offset for handed in stream.take()] for stream in streams]
    assert received == [[0, 3, 6, 9], [1, 4, 7, 10], [2, 5, 8, 11]]


@pytest.mark.clause("G1", "G6")
def test_the_turn_goes_on_behind_whoever_had_room(broker: SimBroker) -> None:
    small = broker.consume("small", prefetch=1)
    large = broker.consume("large")
    other = broker.consume("other")
    broker.produce("0", "1", "2", "3", "4")
    assert [handed.offset for handed in small.take()] == [0]
    assert [handed.offset for handed in large.take()] == [1, 3]
    assert [handed.offset for handed in other.take()] == [2, 4]
    broker.produce("5")
    assert [handed.offset for handed in large.take()] == [5]


@pytest.mark.clause("G2", "G3")
def test_in_flight_is_bounded_for_each_group_alone() -> None:
    broker = SimBroker(limits=Limits(in_flight_max=2))
    broker.produce("a", "b", "c")
    first = broker.consume("worker-a")
    mine = first.take()
    assert [handed.value for handed in mine] == ["a", "b"]
    broker.close(first)
    assert [handed.value for handed in broker.consume("worker-b", group="others").take()] == ["a", "b"]
    stream = broker.consume("worker-c")
    broker.ack(mine[0])
    assert [handed.value for handed in stream.take()] == ["c"]


@pytest.mark.clause("I2", "I3", "P6")
def test_one_key_for_two_topics_in_an_atomic_batch_is_stored_once(broker: SimBroker) -> None:
    broker.create_topic("copies")
    first, second = (
        Message(topic="orders", value="v", envelope=Envelope(idempotency_key="k", target_topic=target))
        for target in ("orders", "copies")
    )
    outcomes = broker.produce_messages([first, second], atomic=True)
    assert outcomes[0] == (0, 0)
    assert isinstance(outcomes[1], Duplicate)
    assert broker.view("copies").partitions[0].messages == 0


@pytest.mark.clause("W9")
def test_a_clock_set_back_expires_nothing_and_repeats_no_time(broker: SimBroker) -> None:
    broker.produce("order-1")
    handed = broker.deliver(to="worker-a", lease_ms=1_000)
    logged = broker.clock.now()
    broker.kill(wall_set_by_ms=-3_600_000)
    assert broker.clock.now() == logged
    broker.pass_time(ms=999)
    broker.ack(handed)

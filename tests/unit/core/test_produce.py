"""What is stored, what is refused, and what that costs."""

import pytest

from driftq.core.decide import Duplicate
from driftq.core.decide.new_messages import RECORD_MESSAGES_MAX
from driftq.core.decide.produce import decide_produce
from driftq.errors import IdempotencyFull, IdempotencyMismatch, InvalidArgument, Overloaded
from driftq.model.options.limits import Limits
from tests.unit.core.machine import PureBroker, command


@pytest.mark.clause("T4", "W2")
def test_offsets_are_counted_per_topic_and_sparse_in_a_partition() -> None:
    broker = PureBroker(partitions=3)
    places = (
        broker.produce("a", key="user:1")
        + broker.produce("b", key="user:2")
        + broker.produce("c", key="user:1")
    )
    assert places == [(1, 0), (0, 1), (1, 2)]
    index = broker.topic.partitions[1].index
    assert [index.offset_at(ordinal) for ordinal in range(index.end)] == [0, 2]
    assert broker.topic.next_offset == 3


@pytest.mark.clause("P2")
def test_a_deadline_that_is_past_stores_nothing(broker: PureBroker) -> None:
    (refused,) = broker.produce("late", deadline=broker.now)
    assert isinstance(refused, InvalidArgument)
    assert broker.produce("in time", deadline=broker.now + 1) == [(0, 0)]


@pytest.mark.clause("P6")
def test_one_bad_message_does_not_sink_the_others(broker: PureBroker) -> None:
    outcomes = broker.produce_commands([command("a"), command("b", override=9), command("c")])
    assert outcomes[0] == (0, 0)
    assert isinstance(outcomes[1], InvalidArgument)
    assert outcomes[2] == (0, 1)


@pytest.mark.clause("P4")
def test_the_slowest_group_holds_producers_back() -> None:
    broker = PureBroker(limits=Limits(partition_messages_max=2))
    broker.group("fast")
    broker.group("slow")
    assert broker.produce("a", "b") == [(0, 0), (0, 1)]
    assert isinstance(broker.produce("c")[0], Overloaded)
    broker.deliver(("a", 9), group="fast")
    broker.ack(0, 1, group="fast")
    assert isinstance(broker.produce("c")[0], Overloaded)
    broker.deliver(("a", 9), group="slow")
    broker.ack(1, group="slow")
    assert broker.produce("c") == [(0, 2)]


@pytest.mark.clause("P4")
def test_a_waiting_retry_counts_as_one() -> None:
    broker = PureBroker(limits=Limits(partition_messages_max=1))
    broker.group()
    broker.produce("a")
    broker.deliver(("a", 1))
    broker.nack(0)
    assert broker.progress().unsettled == 1
    assert isinstance(broker.produce("b")[0], Overloaded)


@pytest.mark.clause("P4")
def test_bytes_of_key_and_value_count_too() -> None:
    broker = PureBroker(limits=Limits(partition_bytes_max=10))
    broker.group()
    assert isinstance(broker.produce("12345678901")[0], Overloaded)
    assert broker.produce("12345", key="kkk") == [(0, 0)]
    assert isinstance(broker.produce("123")[0], Overloaded)
    assert broker.produce("12") == [(0, 1)]


@pytest.mark.clause("P4")
def test_a_topic_without_readers_is_bounded_only_where_the_profile_says_so() -> None:
    free = PureBroker(limits=Limits(partition_messages_max=1))
    assert free.produce("a", "b", "c") == [(0, 0), (0, 1), (0, 2)]
    counted = PureBroker(limits=Limits(partition_messages_max=1, count_unread=True))
    outcomes = counted.produce("a", "b")
    assert outcomes[0] == (0, 0)
    assert isinstance(outcomes[1], Overloaded)


@pytest.mark.clause("P4")
def test_pressure_is_counted_anew_only_when_something_was_settled() -> None:
    broker = PureBroker(limits=Limits(partition_messages_max=2))
    broker.group()
    broker.produce("a", "b")
    part = broker.topic.partitions[0]
    assert isinstance(broker.produce("c")[0], Overloaded)
    assert not part.relieved
    broker.deliver(("a", 9))
    broker.ack(0)
    assert part.relieved
    assert part.pressure == 2


@pytest.mark.clause("I1", "I2", "I4")
def test_the_second_use_of_a_key_is_a_duplicate(broker: PureBroker) -> None:
    assert broker.produce("a", idempotency_key="k") == [(0, 0)]
    again = broker.produce("a", idempotency_key="k")
    other = broker.produce("b", idempotency_key="k")
    assert again == [Duplicate(topic="orders", partition=0, offset=0, payload_mismatch=False)]
    assert other == [Duplicate(topic="orders", partition=0, offset=0, payload_mismatch=True)]
    assert broker.produce("a", idempotency_key="k", tenant_id="acme") == [(0, 1)]
    assert broker.topic.next_offset == 2


@pytest.mark.clause("P6", "I2")
def test_a_key_twice_in_one_batch_is_stored_once(broker: PureBroker) -> None:
    outcomes = broker.produce("a", "a", idempotency_key="k")
    assert outcomes == [(0, 0), Duplicate(topic="orders", partition=0, offset=0, payload_mismatch=False)]


@pytest.mark.clause("I4")
def test_another_payload_can_be_made_an_error() -> None:
    broker = PureBroker(limits=Limits(refuse_mismatch=True))
    broker.produce("a", idempotency_key="k")
    assert isinstance(broker.produce("b", idempotency_key="k")[0], IdempotencyMismatch)


@pytest.mark.clause("I5")
def test_a_key_expires_and_a_full_table_forgets_nothing_early() -> None:
    broker = PureBroker(limits=Limits(idempotency_ttl_ms=640, idempotency_keys_max=1))
    broker.produce("a", idempotency_key="k")
    assert isinstance(broker.produce("b", idempotency_key="l")[0], IdempotencyFull)
    broker.now += 640
    broker.state.keys.expire(broker.now)
    assert isinstance(broker.produce("a", idempotency_key="k")[0], Duplicate)
    broker.now += 10
    broker.state.keys.expire(broker.now)
    assert broker.produce("a", idempotency_key="k") == [(0, 1)]


def test_large_batches_become_records_of_a_bounded_size(broker: PureBroker) -> None:
    commands = [command("x") for _ in range(RECORD_MESSAGES_MAX + 1)]
    batch = decide_produce(
        broker.state, broker.topic, commands, lookup=broker.lookup, now=broker.now, wall=broker.wall
    )
    assert [len(entries) for _, entries in batch.records] == [RECORD_MESSAGES_MAX, 1]
    assert [record.first_offset for record, _ in batch.records] == [0, RECORD_MESSAGES_MAX]

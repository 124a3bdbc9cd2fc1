"""No number names two things: attempts go on over resets, offsets over a topic's deletion."""

from __future__ import annotations

import pytest

from driftq.core.commands import Ack, Extend, Nack
from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import decide_acks, decide_extend, decide_nack, decide_topic
from driftq.core.decide.delete import decide_delete_group, decide_delete_topic, decide_reset
from driftq.core.memory import REMEMBERED_MS
from driftq.core.records import DeliveryTerms, GroupReset
from driftq.core.snapshot.state import dump_state, load_state
from driftq.core.state import State
from driftq.errors import AlreadySettled, DriftQError, NoCurrentDelivery, StaleAttempt
from driftq.model import TopicOptions
from tests.unit.core.machine import PureBroker

DAY_MS = 86_400_000


class Renewed(PureBroker):
    """Groups begin anew, and topics too."""

    def reset(self, group: str = "workers") -> GroupReset:
        record = decide_reset(self.topic, group, to="earliest", now=self.now)
        self.fold(record)
        return record

    def drop_group(self, group: str = "workers") -> None:
        self.fold(decide_delete_group(self.topic, group, now=self.now))

    def delete_topic(self) -> None:
        self.fold(decide_delete_topic(self.topic, now=self.now))

    def make_topic(self, partitions: int = 1) -> None:
        record = decide_topic(
            self.state, "orders", partitions=partitions, options=TopicOptions(), now=self.now
        )
        assert record is not None
        self.fold(record)

    def attempt(self, ordinal: int = 0) -> int:
        return self.progress().attempt_of(ordinal)

    def retry(self) -> None:
        """The current delivery lapses, and the next one goes out."""
        self.now += 10_000
        self.expire()
        assert self.deliver(("a", 100)) is not None

    def refusal(self, offset: int = 0, attempt: int | None = None) -> DriftQError | None:
        return self.ack(offset, attempt=attempt)[1][0]


@pytest.fixture
def broker() -> Renewed:
    made = Renewed()
    made.group()
    return made


@pytest.mark.clause("A7")
def test_an_ack_from_before_a_reset_does_not_settle_the_same_owners_new_delivery(broker: Renewed) -> None:
    broker.produce("v")
    broker.deliver(("a", 1))
    broker.reset()
    broker.deliver(("a", 1))
    refused = broker.refusal(attempt=1)
    assert isinstance(refused, StaleAttempt)
    assert (refused.held, refused.given) == (2, 1)
    assert broker.refusal(attempt=2) is None


@pytest.mark.clause("A7")
def test_nor_do_many_acks_in_one_request(broker: Renewed) -> None:
    broker.produce("a", "b", "c")
    broker.deliver(("a", 3))
    broker.reset()
    broker.deliver(("a", 3))
    assert [type(one) for one in broker.ack(0, 1, 2, attempt=1)[1]] == [StaleAttempt] * 3
    assert broker.ack(0, 1, 2, attempt=2)[1] == [None] * 3


@pytest.mark.clause("A7")
def test_attempts_of_settled_messages_are_not_handed_out_again(broker: Renewed) -> None:
    broker.produce("v")
    broker.deliver(("a", 1))
    broker.retry()
    broker.retry()
    assert broker.refusal() is None  # The third attempt settled it, and it is in no table any more.
    assert broker.reset().attempts == [3]
    broker.deliver(("a", 1))
    assert broker.attempt() == 4
    assert isinstance(broker.refusal(attempt=2), StaleAttempt)


@pytest.mark.clause("A7")
def test_resets_never_go_below_an_earlier_one(broker: Renewed) -> None:
    broker.produce("v")
    broker.deliver(("a", 1))
    broker.retry()
    assert [broker.reset().attempts, broker.reset().attempts] == [[2], [2]]
    broker.deliver(("a", 1))
    assert (broker.attempt(), broker.reset().attempts) == (3, [3])


@pytest.mark.clause("A7", "D3")
def test_max_attempts_counts_from_the_reset(broker: Renewed) -> None:
    broker.produce("v", terms=DeliveryTerms(max_attempts=2, backoff_ms=100))
    broker.deliver(("a", 1))
    broker.retry()
    broker.reset()
    broker.deliver(("a", 1))
    first = broker.give_up_or_wait(0)
    assert first == broker.now + 100  # The policy's first wait, not its third.
    broker.now = first
    broker.deliver(("a", 1))
    given_up = broker.give_up_or_wait(0)
    assert isinstance(given_up, DeadLettered)
    assert given_up.attempts == broker.progress().attempt_base + 2


@pytest.mark.clause("A7", "D2")
def test_backoff_counts_from_the_reset_for_lapsed_leases_too(broker: Renewed) -> None:
    broker.produce("v", terms=DeliveryTerms(backoff_ms=100, max_backoff_ms=60_000))
    broker.deliver(("a", 1))
    for _ in range(4):
        broker.retry()
    broker.reset()
    broker.deliver(("a", 1), lease_ms=2_000)
    ended_at = broker.now + 2_000
    broker.now += 5_000
    assert broker.expire_or_give_up() == ({0: ended_at + 100}, [])


@pytest.mark.clause("A7")
def test_a_group_that_is_deleted_and_comes_again_numbers_its_attempts_on(broker: Renewed) -> None:
    broker.produce("v")
    broker.deliver(("a", 1))
    broker.retry()
    broker.drop_group()
    broker.now += 29 * DAY_MS
    broker.group()
    broker.deliver(("a", 1))
    assert broker.attempt() == 3
    assert isinstance(broker.refusal(attempt=1), StaleAttempt)
    broker.drop_group()
    broker.group()
    broker.drop_group()  # Nothing was handed out in between, and nothing is forgotten by it.
    broker.group()
    broker.deliver(("a", 1))
    assert broker.attempt() == 4


@pytest.mark.clause("A7")
def test_deleted_groups_are_forgotten_after_thirty_days_one_by_one(broker: Renewed) -> None:
    broker.produce("v")
    for name in ("one", "two", "three"):
        broker.group(name)
        broker.deliver(("a", 1), group=name)
        broker.drop_group(name)
        broker.now += 10 * DAY_MS
    memory = broker.topic.deleted_groups
    assert [memory.find(name, now=broker.now) for name in ("one", "two", "three")] == [None, 1, 1]
    broker.deliver(("a", 1))
    broker.drop_group()
    assert [name for name, _, _ in memory.dump(now=0)] == ["two", "three", "workers"]


@pytest.mark.clause("T4")
def test_a_topic_that_is_made_again_goes_on_behind_its_old_offsets(broker: Renewed) -> None:
    broker.produce("a", "b")
    broker.delete_topic()
    broker.now += 29 * DAY_MS
    broker.make_topic(partitions=3)
    assert broker.produce("c") == [(0, 2)]
    broker.delete_topic()
    broker.make_topic()
    broker.delete_topic()  # It held nothing, and the name's offsets stand where they stood.
    broker.make_topic()
    assert broker.produce("d") == [(0, 3)]


@pytest.mark.clause("T4")
def test_a_name_is_forgotten_thirty_days_after_its_topic_was_deleted(broker: Renewed) -> None:
    broker.produce("a", "b")
    broker.delete_topic()
    broker.now += REMEMBERED_MS
    broker.make_topic()
    assert broker.produce("c") == [(0, 0)]


@pytest.mark.clause("T4", "A1")
def test_what_is_said_of_a_deleted_topics_offset_changes_nothing(broker: Renewed) -> None:
    broker.produce("old")
    broker.deliver(("a", 1))
    broker.delete_topic()
    broker.make_topic()
    broker.group()
    broker.produce("new")
    broker.deliver(("a", 1))
    topic, group = broker.topic, broker.topic.groups["workers"]
    assert isinstance(broker.refusal(0, attempt=1), NoCurrentDelivery)
    with pytest.raises(NoCurrentDelivery):
        decide_nack(broker.state, topic, group, Nack("a", 0, 0), now=broker.now, jitter=0.0)
    with pytest.raises(NoCurrentDelivery):
        decide_extend(topic, group, Extend("a", 0, 0, 1_000), now=broker.now)
    assert broker.progress().unsettled == 1
    assert broker.refusal(1, attempt=1) is None


@pytest.mark.clause("A1", "A2")
def test_a_message_of_the_new_topic_that_was_settled_and_dropped_is_settled(broker: Renewed) -> None:
    broker.produce("old")
    broker.delete_topic()
    broker.make_topic()
    broker.group()
    broker.produce("new")
    broker.deliver(("a", 1))
    broker.ack(1)
    index = broker.topic.partitions[0].index
    index.trim(1)
    assert broker.refusal(1) is None
    with pytest.raises(AlreadySettled):
        decide_nack(
            broker.state, broker.topic, broker.topic.groups["workers"], Nack("a", 0, 1), now=0, jitter=0.0
        )
    records, outcomes = decide_acks(
        broker.topic, broker.topic.groups["workers"], [Ack("a", 0, 0)], now=broker.now
    )
    assert (records, type(outcomes[0])) == ([], NoCurrentDelivery)


@pytest.mark.clause("I2", "T4")
def test_a_key_of_the_deleted_topic_does_not_make_a_duplicate(broker: Renewed) -> None:
    assert broker.produce("v", idempotency_key="k") == [(0, 0)]
    broker.delete_topic()
    broker.make_topic()
    assert broker.produce("v", idempotency_key="k") == [(0, 1)]
    (again,) = broker.produce("v", idempotency_key="k")
    assert (again.topic, again.offset) == ("orders", 1)  # type: ignore[union-attr]


def _reloaded(state: State) -> State:
    parts = {name: memoryview(octets) for name, octets in dump_state(state).items()}
    return load_state(parts, state.limits)


@pytest.mark.clause("A7", "T4", "W2")
def test_a_snapshot_keeps_all_of_it(broker: Renewed) -> None:
    broker.produce("v")
    broker.deliver(("a", 1))
    broker.retry()
    broker.reset()
    broker.group("gone")
    broker.deliver(("a", 1), group="gone")
    broker.drop_group("gone")
    again = _reloaded(broker.state)
    progress = again.topics["orders"].groups["workers"].partitions[0]
    assert (progress.attempt_base, progress.highest_attempt) == (2, 2)
    assert again.topics["orders"].deleted_groups.find("gone", now=broker.now) == 1
    broker.delete_topic()
    broker.state = _reloaded(broker.state)
    broker.make_topic()
    broker.state = _reloaded(broker.state)
    assert broker.produce("w") == [(0, 1)]
    assert (broker.topic.start_offset, broker.topic.created_at) == (1, broker.now)


@pytest.mark.clause("T4")
def test_a_snapshot_carries_nothing_that_is_forgotten(broker: Renewed) -> None:
    broker.produce("v")
    broker.delete_topic()
    broker.now += REMEMBERED_MS
    broker.state.last_at = broker.now
    assert _reloaded(broker.state).deleted_topics.dump(now=0) == []

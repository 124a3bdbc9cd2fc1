"""Simple messages of one turn are stored as columns; nobody can tell it from the answers."""

from collections.abc import Sequence
from typing import Any

import pytest

from driftq.core.decide import Duplicate
from driftq.errors import Overloaded, TopicNotFound
from driftq.model import Envelope, Message
from driftq.model.options.limits import Limits
from driftq.model.partitioner import partition_of
from driftq.testing.broker import SimBroker
from driftq.testing.edge_requests import produce_request


def together(broker: SimBroker, *requests: Sequence[Message], atomic: bool = False) -> list[Any]:
    """The answers to requests that are decided in one turn, in their order."""
    answers: list[Any] = [None] * len(requests)
    for slot, messages in enumerate(requests):

        def reply(answer: Any, slot: int = slot) -> None:
            answers[slot] = answer

        request = produce_request(messages, reply, atomic=atomic, now=broker.clock.now())
        broker.machine.engine.submit(request)
    broker.pass_time(ms=10)
    return answers


def one(value: str, *, key: str = "", once: str | None = None, topic: str = "orders") -> list[Message]:
    envelope = None if once is None else Envelope(idempotency_key=once)
    return [Message(topic=topic, value=value, key=key, envelope=envelope)]


@pytest.mark.clause("P6", "T3", "T4")
def test_single_messages_and_batches_of_a_turn_keep_their_order() -> None:
    broker = SimBroker(partitions=3)
    keys = [f"user:{number}" for number in range(6)]
    answers = together(
        broker,
        one("0", key=keys[0]),
        [*one("1", key=keys[1]), *one("2", key=keys[2])],
        one("3", key=keys[3]),
        [*one("4", key=keys[4]), *one("5", key=keys[5])],
    )
    places = [place for answer in answers for place in answer]
    assert places == [(partition_of(key, partitions=3), offset) for offset, key in enumerate(keys)]
    stream = broker.consume("reader")
    assert {handed.offset: handed.value for handed in stream.take()} == {n: str(n) for n in range(6)}


@pytest.mark.clause("I2", "I3")
def test_a_key_twice_in_one_turn_is_a_duplicate_of_the_first() -> None:
    broker = SimBroker()
    first, second, third = together(
        broker, one("a", once="key-1"), one("a", once="key-1"), one("b", once="key-2")
    )
    assert first == [(0, 0)]
    assert third == [(0, 1)]
    (duplicate,) = second
    assert isinstance(duplicate, Duplicate)
    assert (duplicate.offset, duplicate.payload_mismatch) == (0, False)
    again = together(broker, one("b", once="key-2"), one("c", once="key-3"))
    assert isinstance(again[0][0], Duplicate)
    assert again[1] == [(0, 2)]


@pytest.mark.clause("P4")
def test_a_full_partition_refuses_only_what_goes_there() -> None:
    broker = SimBroker(partitions=3, limits=Limits(partition_messages_max=2))
    stream = broker.consume("reader", lease_ms=60_000)
    full, other = "user:1", "user:2"
    answers = together(
        broker, one("a", key=full), one("b", key=full), one("c", key=full), one("d", key=other)
    )
    assert [answers[0], answers[1], answers[3]] == [[(1, 0)], [(1, 1)], [(0, 2)]]
    assert isinstance(answers[2][0], Overloaded)
    assert sorted(handed.value for handed in stream.take()) == ["a", "b", "d"]


@pytest.mark.clause("P1")
def test_a_topic_that_is_missing_refuses_its_message_alone() -> None:
    broker = SimBroker()
    broker.create_topic("other")
    stored, refused, elsewhere = together(
        broker, one("a"), one("b", topic="missing"), one("c", topic="other")
    )
    assert (stored, elsewhere) == ([(0, 0)], [(0, 0)])
    assert isinstance(refused[0], TopicNotFound)


@pytest.mark.clause("W2", "I3")
def test_what_was_stored_as_columns_survives_a_power_cut_with_its_keys() -> None:
    broker = SimBroker(partitions=3)
    together(broker, *[one(f"{n}", key=f"user:{n}", once=f"key-{n}") for n in range(20)])
    broker.power_cut()
    answers = together(broker, *[one(f"{n}", key=f"user:{n}", once=f"key-{n}") for n in range(20)])
    assert [answer[0].offset for answer in answers] == list(range(20))
    assert len(broker.consume("reader").take()) == 20

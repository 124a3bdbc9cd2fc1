"""Logs and snapshots of the version before this one: what they do not say is taken as it was meant then."""

from __future__ import annotations

from array import array
from typing import Any

import msgspec
import pytest

from driftq.core.decide.delete import decide_reset
from driftq.core.decide.effects import HeldEffect, decide_begin, decide_fail
from driftq.core.decide.topics import new_topic
from driftq.core.effects import Identity
from driftq.core.evolve.fold import evolve
from driftq.core.records import (
    DeliveriesEnded,
    EffectBegun,
    EndedDelivery,
    GroupCreated,
    GroupReset,
    MessagesDelivered,
    MessagesStored,
    Record,
    RedeliveredBlock,
    TopicCreated,
    TopicDeleted,
    decode_records,
    encode_record,
)
from driftq.core.snapshot.state import dump_state, load_state
from driftq.core.state import State
from driftq.model import TopicOptions
from driftq.model.options.limits import Limits

ADA: Identity = ("", "orders", "billing", "k")
_ADDED = {  # How many last fields each kind of record has got since.
    "TopicCreated": 2,
    "GroupCreated": 1,
    "GroupReset": 1,
    "EffectBegun": 2,
    "EffectFailed": 1,
}


def _as_before(record: list[Any], kind: str) -> bytes:
    """The bytes that the older version wrote for this record."""
    return msgspec.msgpack.encode(record[: len(record) - _ADDED.get(kind, 0)])


def fold(state: State, *records: Record) -> None:
    """Fold the records as they would be read from an older log."""
    for record in records:
        fields = msgspec.msgpack.decode(msgspec.msgpack.encode(record))
        head = _as_before(fields, type(record).__name__)
        whole = encode_record(record)
        prefix = whole[:1] + len(head).to_bytes(4, "little") + whole[5:9]
        for read, _ in decode_records(memoryview(prefix + head)):
            evolve(state, read, segment=1, blob_at=0)


def stored(topic: int, first: int, count: int, *, at: int) -> MessagesStored:
    numbers = array("I", [1] * count).tobytes()
    return MessagesStored(at, topic, first, 0, b"", numbers, numbers)


def delivered_record(at: int, group: int, ordinals: list[int]) -> Record:
    """A first delivery whose block ends with its step, as it did."""

    fields = [at, group, 0, ordinals[-1] + 1, [["a", 1_000, ordinals[0], ordinals[-1] + 1, 1]], []]
    return msgspec.msgpack.decode(msgspec.msgpack.encode(fields), type=MessagesDelivered)


@pytest.fixture
def state() -> State:

    made = State(Limits())
    fold(
        made,
        TopicCreated(1, 1, "orders", 1),
        stored(1, 0, 3, at=2),
        GroupCreated(3, 1, 1, "billing", [0]),
    )
    evolve(made, delivered_record(4, 1, [0, 1, 2]), segment=1, blob_at=0)
    return made


@pytest.mark.clause("A7")
def test_attempts_behind_an_older_reset_are_numbered_as_they_were(state: State) -> None:
    fold(state, GroupReset(5, 1, [0], [7]))  # The 7 is cut off: that version had no such field.
    evolve(state, delivered_record(6, 1, [0]), segment=1, blob_at=0)
    progress = state.progress(1, 0)
    assert (progress.attempt_base, progress.attempt_of(0), progress.highest_attempt) == (0, 1, 1)


@pytest.mark.clause("T4")
def test_a_topic_that_was_made_again_before_began_at_nought_and_the_next_begins_behind_both(
    state: State,
) -> None:

    fold(state, TopicDeleted(7, 1), TopicCreated(8, 2, "orders", 1, start_offset=3), stored(2, 0, 1, at=9))
    assert (state.topics["orders"].start_offset, state.topics["orders"].next_offset) == (0, 1)
    fold(state, TopicDeleted(10, 2))
    assert new_topic(state, "orders", partitions=1, options=TopicOptions(), now=11).start_offset == 3


@pytest.mark.clause("I6")
def test_an_effect_that_began_before_counts_for_whichever_topic_has_the_name(state: State) -> None:

    fold(state, EffectBegun(10, ADA, "a", 1_000, 1, 99))
    assert decide_begin(state, ADA, topic=1, owner="b", lease_ms=1, done=None, now=11) == HeldEffect(
        "a", 1_010
    )
    failed = decide_fail(state, ADA, owner="a", token=1, error="boom", now=12)
    assert failed is not None
    fold(state, failed)
    again = decide_begin(state, ADA, topic=1, owner="b", lease_ms=1_000, done=None, now=13)
    assert isinstance(again, EffectBegun)
    assert (again.topic, again.token) == (1, 2)
    evolve(state, again, segment=1, blob_at=0)
    assert list(state.effects.pending) == [(ADA, 1)]
    assert not state.effects.failed


def _older_parts(state: State) -> dict[str, memoryview]:
    """A snapshot without what was added since."""
    parts = dump_state(state)
    del parts["deleted_topics"]
    topics = msgspec.msgpack.decode(parts["topics"], strict=False)
    for topic in topics:
        del topic[-3:]
        for group in topic[5]:
            for progress in group[3]:
                del progress[-2:]
    parts["topics"] = msgspec.msgpack.encode(topics)
    effects = msgspec.msgpack.decode(parts["effects"])
    for _, one in [*effects[1], *effects[2]]:
        del one["topic"]
    parts["effects"] = msgspec.msgpack.encode(effects)
    return {name: memoryview(octets) for name, octets in parts.items()}


@pytest.mark.clause("W2")
def test_a_snapshot_from_before_opens_and_a_reset_behind_it_fences_what_it_knows(state: State) -> None:

    fold(state, EffectBegun(10, ADA, "a", 1_000, 1, 0))
    for attempt in (2, 3):
        ended = DeliveriesEnded(10 * attempt, 1, 0, 2, [EndedDelivery(1, 10 * attempt, "")])
        again = MessagesDelivered(10 * attempt, 1, 0, 3, [], [RedeliveredBlock("a", 1_000, [1])])
        for record in (ended, again):
            evolve(state, record, segment=1, blob_at=0)
    loaded = load_state(_older_parts(state), state.limits)
    topic = loaded.topics["orders"]
    assert (topic.start_offset, topic.created_at, topic.next_offset) == (0, 0, 3)
    assert loaded.effects.pending == state.effects.pending
    assert loaded.effects.pending_under(ADA, 1) is not None
    assert decide_reset(topic, "billing", to="earliest", now=50).attempts == [3]

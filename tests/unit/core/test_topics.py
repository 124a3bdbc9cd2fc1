"""Topics, groups and readers come into being, and a fold brings them back."""

from array import array
from typing import Any

import pytest

from driftq.core.decide import decide_group, decide_reader, decide_topic
from driftq.core.evolve.fold import evolve
from driftq.core.owners import OwnerSet
from driftq.core.records import MessagesStored, TopicCreated, decode_records, encode_record
from driftq.core.state import State
from driftq.errors import InvalidArgument, TopicExists
from driftq.model import TopicOptions
from driftq.model.options.limits import Limits
from driftq.testing.canonical import canonical, differences
from tests.unit.core.machine import PureBroker


def _create(broker: PureBroker, name: str, partitions: int, **options: Any) -> TopicCreated | None:
    record = decide_topic(
        broker.state, name, partitions=partitions, options=TopicOptions(**options), now=broker.now
    )
    assert not isinstance(record, OwnerSet)
    return record


@pytest.mark.clause("T1")
@pytest.mark.parametrize("name", ["", ".", "..", "a b", "é", "x" * 246, "dlq.orders", "a/b"])
def test_names_that_cannot_be(broker: PureBroker, name: str) -> None:
    with pytest.raises(InvalidArgument):
        _create(broker, name, 1)


@pytest.mark.clause("T1")
def test_partition_counts_have_limits(broker: PureBroker) -> None:
    for partitions in (0, -1, 4097):
        with pytest.raises(InvalidArgument):
            _create(broker, "t", partitions)
    assert _create(broker, "x" * 245, 4096) is not None


@pytest.mark.clause("T2")
def test_creating_again_changes_nothing(broker: PureBroker) -> None:
    assert _create(broker, "orders", 1) is None
    with pytest.raises(TopicExists) as refused:
        _create(broker, "orders", 2)
    assert (refused.value.partitions, refused.value.asked) == (1, 2)


@pytest.mark.parametrize("field", ["retention_ms", "retention_bytes"])
def test_retention_is_at_least_one(broker: PureBroker, field: str) -> None:
    with pytest.raises(InvalidArgument):
        _create(broker, "t", 1, **{field: 0})


@pytest.mark.clause("G4")
def test_a_group_is_created_once(broker: PureBroker) -> None:
    broker.group()
    assert decide_group(broker.state, broker.topic, "workers", latest=False, now=broker.now) is None


@pytest.mark.clause("P4")
def test_a_reader_holds_producers_back_and_only_moves_on() -> None:
    broker = PureBroker(limits=Limits(partition_messages_max=2))
    for offset in (0, 0):
        broker.fold(decide_reader(broker.topic, "spark", offsets={0: offset}, now=broker.now))
    broker.produce("a", "b")
    broker.fold(decide_reader(broker.topic, "spark", offsets={0: 2}, now=broker.now))
    broker.fold(decide_reader(broker.topic, "spark", offsets={0: 1}, now=broker.now))
    assert broker.topic.readers == {"spark": [2]}
    assert broker.topic.partitions[0].pressure == 0
    for offsets in ({1: 0}, {0: -1}):
        with pytest.raises(InvalidArgument):
            decide_reader(broker.topic, "spark", offsets=offsets, now=broker.now)


@pytest.mark.clause("W2", "T2")
def test_an_empty_topic_and_its_partitions_survive_a_fold(broker: PureBroker) -> None:
    folded = State(broker.state.limits)
    record = TopicCreated(at=broker.now, topic=1, name="orders", partitions=1)
    for again, blob_at in decode_records(memoryview(encode_record(record))):
        evolve(folded, again, segment=0, blob_at=blob_at)
    assert differences(canonical(folded, now=0), canonical(broker.state, now=0)) == []


@pytest.mark.clause("W2", "I3")
def test_scattered_messages_and_their_keys_are_indexed_where_they_are() -> None:
    broker = PureBroker(partitions=3)
    record = MessagesStored(
        at=5,
        topic=1,
        first_offset=10,
        partition=-1,
        partitions=array("H", [2, 0, 2]).tobytes(),
        lengths=array("I", [4, 5, 6]).tobytes(),
        sizes=array("I", [1, 2, 3]).tobytes(),
        flags=bytes([0, 8, 8]),
        fingerprints=array("Q", [0, 77, 78]).tobytes(),
    )
    evolve(broker.state, record, segment=3, blob_at=100)
    index = broker.topic.partitions[2].index
    assert [index.offset_at(ordinal) for ordinal in (0, 1)] == [10, 12]
    place = index.place_at(1)
    assert (place.segment, place.position, place.length, place.flags) == (3, 109, 6, 8)
    (claim,) = broker.state.keys.find(78)
    assert (claim.topic, claim.offset) == (1, 12)
    assert broker.topic.locate(12) == (2, 1)
    assert broker.topic.next_offset == 13


@pytest.mark.clause("W9")
def test_the_latest_time_of_the_log_is_kept(broker: PureBroker) -> None:
    before = broker.state.last_at
    broker.fold(decide_reader(broker.topic, "spark", offsets={}, now=before + 50))
    broker.fold(decide_reader(broker.topic, "spark", offsets={}, now=before + 20))
    assert broker.state.last_at == before + 50

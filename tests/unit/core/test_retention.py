"""What is kept, for how long, and what becomes of those who were behind."""

from itertools import pairwise
from random import Random

import pytest

from driftq.core.decide.retention import PURGED_TOGETHER
from driftq.core.index import TimeIndex
from driftq.core.records import DeadLettersPurged, ReaderReported
from driftq.errors import Overloaded
from driftq.model.options.limits import Limits
from driftq.testing.disk import SimFolder
from tests.support.story import Story


@pytest.fixture
def story() -> Story:
    return Story(SimFolder(Random(1)))


def kept(story: Story, topic: str = "t", partition: int = 0) -> list[int]:
    index = story.state.topics[topic].partitions[partition].index
    return [index.offset_at(ordinal) for ordinal in range(index.first, index.end)]


@pytest.mark.clause("T7", "W6")
def test_a_topic_that_nobody_reads_keeps_its_messages_for_its_retention(story: Story) -> None:
    story.topic("t", retention_ms=3_200)
    for number in range(6):
        story.produce("t", str(number))
        story.now += 1_000
    story.trim()
    assert kept(story) == [3, 4, 5]
    story.now += 10_000
    story.trim()
    assert kept(story) == []
    story.produce("t", "next")
    assert kept(story) == [6]


@pytest.mark.clause("T7")
def test_the_servers_retention_is_for_topics_that_have_none(story: Story) -> None:
    story.topic("t")
    story.produce("t", "a")
    story.now += story.limits.retention_ms - 1
    story.trim()
    assert kept(story) == [0]
    story.now += 1
    story.trim()
    assert kept(story) == []


@pytest.mark.clause("O1")
def test_a_large_purge_is_dropped_over_several_decisions(story: Story) -> None:
    story.topic("t")
    for start in range(0, 12_000, 1_000):
        story.produce("t", *map(str, range(start, start + 1_000)))
    topic = story.state.topics["t"]
    topic.name = "dlq.t"  # What its messages are: nobody produces to a dead-letter topic.
    offsets = [offset for offset in range(12_000) if offset != 11_000]
    story.journal.add(DeadLettersPurged(at=story.now, topic=topic.id, offsets=offsets))
    story.commit()
    left = [12_000]
    while not left[1:] or left[-1] < left[-2]:
        story.trim()
        left.append(len(kept(story)))
    assert all(before - after <= PURGED_TOGETHER for before, after in pairwise(left))
    assert kept(story) == list(range(11_000, 12_000))
    assert topic.purged == set(range(11_001, 12_000))


@pytest.mark.clause("W6")
def test_a_message_stays_until_every_group_has_settled_it(story: Story) -> None:
    story.topic("t")
    for group in ("fast", "slow"):
        story.group("t", group)
    story.produce("t", *"abcd")
    story.deliver("t", "fast", 4, lease_ms=10**6)
    story.deliver("t", "slow", 4, lease_ms=10**6)
    story.ack("t", "fast", 0, 1, 2, 3)
    story.ack("t", "slow", 0, 2)
    story.now += 10**5
    story.trim()
    assert kept(story) == [1, 2, 3]
    story.ack("t", "slow", 1)
    story.trim()
    assert kept(story) == [3]


@pytest.mark.clause("W6", "S8")
def test_a_message_stays_until_every_reader_has_passed_it(story: Story) -> None:
    topic = story.topic("t")
    story.produce("t", *"abcd")
    story.journal.add(ReaderReported(at=story.now, topic=topic.id, reader="spark", positions=[(0, 2)]))
    story.now += 10**6
    story.trim()
    assert kept(story) == [2, 3]


@pytest.mark.clause("I5", "W6")
def test_a_message_stays_while_its_key_is_remembered() -> None:
    story = Story(SimFolder(Random(1)), limits=Limits(retention_ms=1_000, idempotency_ttl_ms=640_000))
    story.topic("t")
    story.produce("t", "a")
    story.now += 640_000
    story.trim()
    assert kept(story) == [0]
    story.now += 10_100
    story.trim()
    assert kept(story) == []


@pytest.mark.clause("T7")
def test_above_its_bytes_a_topic_loses_the_oldest_and_groups_go_on_behind_them(story: Story) -> None:
    story.topic("t", 3, retention_bytes=500)
    story.group("t", "g")
    for number in range(20):
        story.produce("t", "x" * 100, key=f"user:{number % 3 + 1}")
    story.deliver("t", "g", 3)
    assert story.trim() == 16
    left = sorted(kept(story, partition=0) + kept(story, partition=1) + kept(story, partition=2))
    assert left == [16, 17, 18, 19]
    group = story.state.topics["t"].groups["g"]
    assert sum(progress.unsettled for progress in group.partitions) == 4
    assert all(
        ordinal >= progress.floor for progress in group.partitions for ordinal in progress.leases.leased
    )
    story.deliver("t", "g", 10)
    assert sum(len(progress.leases) for progress in group.partitions) == 4


@pytest.mark.clause("A1", "A2")
def test_an_ack_of_what_was_settled_and_dropped_is_repeated_without_harm(story: Story) -> None:
    story.topic("t")
    story.group("t", "g")
    story.produce("t", "a", "b")
    story.deliver("t", "g", 2)
    story.ack("t", "g", 0)
    story.now += 10**6
    story.trim()
    assert kept(story) == [1]
    story.ack("t", "g", 0)


@pytest.mark.clause("P5")
def test_a_group_that_is_away_for_the_retention_holds_nobody_back_until_it_returns() -> None:
    limits = Limits(partition_messages_max=3, retention_ms=60_000, idempotency_ttl_ms=1_000)
    story = Story(SimFolder(Random(1)), limits=limits)
    story.topic("t")
    story.group("t", "away")
    story.produce("t", *"abc")
    with pytest.raises(AssertionError):
        produced(story, "d")
    story.now += 60_001
    produced(story, "d")
    (progress,) = story.state.topics["t"].groups["away"].partitions
    assert progress.unsettled == 4
    story.trim()
    assert kept(story) == [0, 1, 2, 3]
    story.deliver("t", "away", 1)
    with pytest.raises(AssertionError):
        produced(story, "e")


def produced(story: Story, value: str) -> None:
    """Fails when the partition is full."""
    before = story.state.topics["t"].next_offset
    story.produce("t", value)
    assert story.state.topics["t"].next_offset == before + 1, Overloaded


def test_ages_are_marks_and_never_too_young() -> None:
    ages = TimeIndex()
    for second in range(1_000):
        ages.note(second * 1_000, second + 1, retention_ms=640_000)
    times, _, _ = ages.dump()
    assert len(times) // 8 <= 101
    for at in range(0, 999_000, 777):
        assert ages.end_by(at) <= at // 1_000 + 1
        assert ages.end_by(at) >= at // 1_000 - 10

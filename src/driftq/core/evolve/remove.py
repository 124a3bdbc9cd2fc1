"""Folding the records of removal: messages dropped, topics and groups deleted or reset."""

from driftq.core.group import GroupPartition
from driftq.core.jobs.table import JOBS_TOPIC
from driftq.core.memory import DeletedTopic
from driftq.core.records import GroupDeleted, GroupReset, PartitionsTrimmed, SegmentRolled, TopicDeleted
from driftq.core.state import State


def trim(state: State, record: PartitionsTrimmed) -> None:
    topic = state.topics_by_id[record.topic]
    for one in record.trims:
        part = topic.partitions[one.partition]
        for group in topic.groups.values():
            group.partitions[one.partition].skip_to(one.first)
        for positions in topic.readers.values():
            positions[one.partition] = max(positions[one.partition], one.first)
        if topic.purged:
            gone = range(part.index.first, one.first)
            topic.purged.difference_update([part.index.offset_at(ordinal) for ordinal in gone])
        part.index.trim(one.first)
        if topic.name == JOBS_TOPIC:
            state.jobs.drop_below(one.first)
        part.ages.forget_below(one.first)
        part.relieved = True


def delete_topic(state: State, record: TopicDeleted) -> None:
    topic = state.topics_by_id.pop(record.topic)
    del state.topics[topic.name]
    earlier = state.deleted_topics.find(topic.name, now=record.at)
    upto = max(topic.next_offset, earlier.next_offset if earlier is not None else 0)
    state.deleted_topics.remember(topic.name, DeletedTopic(topic.id, upto), at=record.at)
    for group in topic.groups.values():
        del state.groups_by_id[group.id]
    state.dead_letter_ids.remove_topic(topic.id)
    for part in topic.partitions:
        part.index.trim(part.index.end)  # A read still under way finds nothing.


def reset_group(state: State, record: GroupReset) -> None:
    group = state.groups_by_id[record.group]
    topic = state.topics[group.topic]
    # A record of an older version has no attempts, and those after it were numbered from 1.
    bases = record.attempts or [0] * len(record.starts)
    before = group.partitions
    group.partitions = [
        GroupPartition(part.index, start=start, attempt_base=base)
        for part, start, base in zip(topic.partitions, record.starts, bases, strict=True)
    ]
    for old, new in zip(before, group.partitions, strict=True):
        new.highest_attempt = max(new.highest_attempt, old.highest_attempt)
    group.seen_at = record.at
    state.count_pressure(topic, record.at)


def delete_group(state: State, record: GroupDeleted) -> None:
    group = state.groups_by_id.pop(record.group)
    topic = state.topics[group.topic]
    del topic.groups[group.name]
    highest = max(progress.highest_attempt for progress in group.partitions)
    if highest:
        topic.deleted_groups.remember(group.name, highest, at=record.at)
    state.count_pressure(topic, record.at)


def roll(_state: State, _record: SegmentRolled) -> None:
    """Only its time matters."""

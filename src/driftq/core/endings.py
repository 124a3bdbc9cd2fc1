"""Folding the records that take something away: messages dropped, topics and groups deleted or reset."""

from driftq.core.group import GroupPartition
from driftq.core.jobs.table import JOBS_TOPIC
from driftq.core.records import GroupDeleted, GroupReset, PartitionsTrimmed, SegmentRolled, TopicDeleted
from driftq.core.state import State, Topic


def count_all(state: State, topic: Topic, now: int) -> None:
    """Count anew what each partition's slowest group or reader has not settled."""
    for number in range(len(topic.partitions)):
        topic.count_pressure(number, limits=state.limits, now=now)


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
    for group in topic.groups.values():
        del state.groups_by_id[group.id]
    for part in topic.partitions:
        part.index.trim(part.index.end)  # Whoever still reads it finds nothing.


def reset_group(state: State, record: GroupReset) -> None:
    group = state.groups_by_id[record.group]
    topic = state.topics[group.topic]
    group.partitions = [
        GroupPartition(part.index, start=start)
        for part, start in zip(topic.partitions, record.starts, strict=True)
    ]
    group.seen_at = record.at
    count_all(state, topic, record.at)


def delete_group(state: State, record: GroupDeleted) -> None:
    group = state.groups_by_id.pop(record.group)
    topic = state.topics[group.topic]
    del topic.groups[group.name]
    count_all(state, topic, record.at)


def roll(_state: State, _record: SegmentRolled) -> None:
    """Its time is all it has to say."""

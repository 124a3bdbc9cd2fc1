"""Folding the beginning and the end of delays."""

from collections.abc import Sequence

from driftq.core.records import DelaysEnded, unpack_array
from driftq.core.state import State, Topic


def delay(state: State, topic: Topic, partition: int, delays: Sequence[int]) -> None:
    """Some of the messages just stored, those with an instant, are delayed."""
    instants = [at for at in delays if at]
    if not instants:
        return
    part = topic.partitions[partition]
    part.pressure -= len(instants)
    for group in topic.groups.values():
        group.partitions[partition].delayed += len(instants)
    state.schedule_delays(topic, partition)


def end_delays(state: State, record: DelaysEnded) -> None:
    """Groups that passed over these messages have them now for their first delivery."""
    topic = state.topics_by_id[record.topic]
    part = topic.partitions[record.partition]
    ordinals = unpack_array("Q", record.ordinals)
    for group in topic.groups.values():
        progress = group.partitions[record.partition]
        for ordinal in ordinals:
            progress.end_delay(ordinal)
    for ordinal in ordinals:
        part.index.specials.end_delay(ordinal)
    part.pressure += len(ordinals)
    state.next_delay()  # Schedules the next instant in place of this one.

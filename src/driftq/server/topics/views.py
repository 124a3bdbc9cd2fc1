"""Views of the state, for replies to clients."""

from collections.abc import Callable, Sequence

from driftq.core.state import State, Topic
from driftq.errors import TopicNotFound
from driftq.model import GroupView, PartitionView, ReaderView, StreamView, TopicView, WriterView
from driftq.model.topic import INTERNAL_PREFIX
from driftq.server.walk import Walk, in_order

__all__ = [
    "INTERNAL_PREFIX",
    "GroupView",
    "PartitionView",
    "ReaderView",
    "TopicView",
    "find_topic",
    "topic_view",
    "walk_topic_names",
]


def walk_topic_names(
    state: State, shown: Callable[[str], bool], *, after: str | None = None, at_most: int | None = None
) -> Walk[list[str]]:
    """The topics that are to be shown, by name, after a name; without the server's own."""

    def wanted(name: str) -> bool:
        return not name.startswith(INTERNAL_PREFIX) and (after is None or name > after) and shown(name)

    return in_order(state.topics, wanted, at_most=at_most)


def find_topic(state: State, name: str) -> Topic:
    topic = state.topics.get(name)
    if topic is None:
        raise TopicNotFound(name)
    return topic


def topic_view(
    state: State, name: str, *, streams: Sequence[StreamView] = (), cluster_id: str = ""
) -> TopicView:
    """A topic with its partitions, every group's and reader's progress, and its open streams."""
    topic = find_topic(state, name)
    numbers = range(len(topic.partitions))
    return TopicView(
        name=name,
        partitions=[_partition(topic, number) for number in numbers],
        groups=[
            _group(topic, group_name, number) for group_name in sorted(topic.groups) for number in numbers
        ],
        readers=[_reader(topic, reader, number) for reader in sorted(topic.readers) for number in numbers],
        writers=[
            WriterView(writer, found.epoch, {str(lane): at for lane, at in sorted(found.lanes.items())})
            for writer, found in sorted(topic.writers.items())
        ],
        start_offset=topic.start_offset,
        streams=sorted(streams, key=lambda stream: (stream.group, stream.owner)),
        id=f"{cluster_id}/{topic.id}" if cluster_id else "",
        tenant=topic.tenant,
    )


def _partition(topic: Topic, number: int) -> PartitionView:
    index = topic.partitions[number].index
    empty = index.end == index.first
    return PartitionView(
        partition=number,
        first_offset=topic.next_offset if empty else index.offset_at(index.first),
        next_offset=topic.next_offset if empty else index.offset_at(index.end - 1) + 1,
        messages=index.end - index.first,
        bytes=index.total_bytes - index.bytes_before,
    )


def _group(topic: Topic, name: str, number: int) -> GroupView:
    progress = topic.groups[name].partitions[number]
    return GroupView(
        group=name,
        partition=number,
        acked=progress.acked,
        floor=_offset(topic, number, progress.floor),
        in_flight=len(progress.leases),
        lag=progress.unsettled,
        delayed=progress.delayed,
    )


def _reader(topic: Topic, reader: str, number: int) -> ReaderView:
    position = topic.readers[reader][number]
    return ReaderView(
        reader=reader,
        partition=number,
        next_offset=_offset(topic, number, position),
        lag=topic.partitions[number].index.end - position,
    )


def _offset(topic: Topic, number: int, ordinal: int) -> int:
    """The offset of an ordinal; for the one after the last, the topic's next."""
    index = topic.partitions[number].index
    return index.offset_at(ordinal) if ordinal < index.end else topic.next_offset

"""Folding a record into the state: the same function when it has just been decided and at a restart."""

from array import array
from collections.abc import Callable
from itertools import accumulate

from driftq.core.endings import count_all, delete_group, delete_topic, reset_group, roll, trim
from driftq.core.group import Group, GroupPartition
from driftq.core.index import LENGTH_BITS, pack_place
from driftq.core.lease import LeaseBlock
from driftq.core.records import (
    CAUSE_EXPIRED,
    DeliveriesEnded,
    GroupCreated,
    GroupDeleted,
    GroupReset,
    LeaseExtended,
    MessagesDelivered,
    MessagesSettled,
    MessagesStored,
    PartitionsTrimmed,
    ReaderReported,
    Record,
    SegmentRolled,
    TopicCreated,
    TopicDeleted,
    unpack_array,
)
from driftq.core.state import State, Topic

ACK_TIMEOUT = "ack_timeout"


def evolve(state: State, record: Record, *, segment: int, blob_at: int) -> None:
    """Make the record true in the state. `segment` and `blob_at` say where its blob is in the log."""
    if record.at > state.last_at:
        state.last_at = record.at
    if type(record) is MessagesStored:
        store(state, record, segment=segment, blob_at=blob_at)
    else:
        _FOLDS[type(record)](state, record)


def _create_topic(state: State, record: TopicCreated) -> None:
    topic = Topic(id=record.topic, name=record.name, partitions=record.partitions, options=record.options)
    state.topics[record.name] = topic
    state.topics_by_id[record.topic] = topic
    state.next_topic = record.topic + 1


def store(state: State, record: MessagesStored, *, segment: int, blob_at: int) -> None:
    """Index new messages, and claim their keys."""
    topic = state.topics_by_id[record.topic]
    lengths = unpack_array("I", record.lengths)
    sizes = unpack_array("I", record.sizes)
    count = len(lengths)
    offsets = range(record.first_offset, record.first_offset + count)
    topic.next_offset = record.first_offset + count
    if count == 1:
        places = [pack_place(blob_at, lengths[0], record.flags[0] if record.flags else 0)]
    else:
        starts = accumulate(lengths, initial=blob_at)
        places = [start << 32 | length for start, length in zip(starts, lengths, strict=False)]
        if record.flags:
            places = [place | flags << LENGTH_BITS for place, flags in zip(places, record.flags, strict=True)]
    retention_ms = topic.retention_ms(state.limits)
    if record.partition >= 0:
        part = topic.partitions[record.partition]
        before = part.index.total_bytes
        part.index.add_run(segment, offsets=offsets, places=places, sizes=sizes)
        part.ages.note(record.at, part.index.end, retention_ms=retention_ms)
        part.pressure += count
        part.pressure_bytes += part.index.total_bytes - before
    else:
        for number in _store_scattered(topic, record, segment=segment, places=places, sizes=sizes):
            part = topic.partitions[number]
            part.ages.note(record.at, part.index.end, retention_ms=retention_ms)
    if record.fingerprints:
        _claim_keys(state, topic, record)


def _store_scattered(
    topic: Topic, record: MessagesStored, *, segment: int, places: list[int], sizes: "array[int]"
) -> set[int]:
    """Index messages of several partitions; which ones."""
    offset = record.first_offset
    numbers = unpack_array("H", record.partitions)
    for number, place, size in zip(numbers, places, sizes, strict=True):
        part = topic.partitions[number]
        part.index.add_run(segment, offsets=(offset,), places=(place,), sizes=(size,))
        part.pressure += 1
        part.pressure_bytes += size
        offset += 1
    return set(numbers)


def _claim_keys(state: State, topic: Topic, record: MessagesStored) -> None:
    prints = unpack_array("Q", record.fingerprints)
    if record.partition >= 0:
        numbers = [record.partition] * len(prints)
    else:
        numbers = unpack_array("H", record.partitions).tolist()
    ends = {number: topic.partitions[number].index.end for number in set(numbers)}
    for print_, number in zip(reversed(prints), reversed(numbers), strict=True):
        ends[number] -= 1
        if print_:
            state.keys.add(print_, topic=topic.id, partition=number, ordinal=ends[number], at=record.at)


def _create_group(state: State, record: GroupCreated) -> None:
    topic = state.topics_by_id[record.topic]
    group = Group(
        id=record.group,
        name=record.name,
        topic=topic.name,
        partitions=[
            GroupPartition(part.index, start=start)
            for part, start in zip(topic.partitions, record.starts, strict=True)
        ],
    )
    group.seen_at = record.at
    topic.groups[record.name] = group
    state.groups_by_id[record.group] = group
    state.next_group = record.group + 1
    count_all(state, topic, record.at)


def _see(state: State, group: Group, at: int) -> None:
    """The group is at work; if it was away for so long that it did not count, it counts again."""
    before, group.seen_at = group.seen_at, at
    topic = state.topics[group.topic]
    if at - before > topic.retention_ms(state.limits):
        count_all(state, topic, at)


def deliver(state: State, record: MessagesDelivered) -> list[LeaseBlock]:
    """Lease the delivered messages; returns the blocks, fresh ones first, in the record's order."""
    group = state.groups_by_id[record.group]
    _see(state, group, record.at)
    progress = group.partitions[record.partition]
    progress.cover(record.upto)
    blocks: list[LeaseBlock] = []
    for fresh in record.fresh:
        block = LeaseBlock(
            owner=fresh.owner,
            lease_ms=fresh.lease_ms,
            until=record.at + fresh.lease_ms,
            ordinals=range(fresh.start, fresh.stop, fresh.step),
        )
        progress.leases.grant(block)
        blocks.append(block)
    for again in record.again:
        for ordinal in again.ordinals:
            progress.stop_waiting(ordinal)
            progress.attempts[ordinal] = progress.attempts.get(ordinal, 1) + 1
        block = LeaseBlock(
            owner=again.owner,
            lease_ms=again.lease_ms,
            until=record.at + again.lease_ms,
            ordinals=again.ordinals,
        )
        progress.leases.grant(block)
        blocks.append(block)
    return blocks


def _deliver(state: State, record: MessagesDelivered) -> None:
    deliver(state, record)


def _settle(state: State, record: MessagesSettled) -> None:
    group = state.groups_by_id[record.group]
    _see(state, group, record.at)
    progress = group.partitions[record.partition]
    base = record.base
    deltas = unpack_array("I", record.deltas)
    highest = base + max(deltas)
    if base == progress.floor and highest - base == len(deltas) - 1 and not progress.ahead_count:
        progress.leases.release_all(range(base, highest + 1))
        progress.settle_run(base, highest + 1)
    else:
        ordinals = [base + delta for delta in deltas]
        progress.leases.release_all(ordinals)
        for ordinal in ordinals:
            progress.settle(ordinal)
        progress.advance()
    progress.acked = max(progress.acked, progress.index.offset_at(highest))
    state.topics[group.topic].partitions[record.partition].relieved = True


def _end_deliveries(state: State, record: DeliveriesEnded) -> None:
    progress = state.progress(record.group, record.partition)
    for ended in record.ended:
        progress.leases.release(ended.ordinal)
        progress.attempts.setdefault(ended.ordinal, 1)
        if ended.error:
            progress.errors[ended.ordinal] = ended.error
        elif record.cause == CAUSE_EXPIRED:
            progress.errors.setdefault(ended.ordinal, ACK_TIMEOUT)
        progress.wait_until(ended.ordinal, ended.due_at)


def _extend(state: State, record: LeaseExtended) -> None:
    leases = state.progress(record.group, record.partition).leases
    old = leases.leased[record.ordinal]
    share = old.size_bytes // old.remaining
    leases.release(record.ordinal)
    block = LeaseBlock(
        owner=old.owner,
        lease_ms=record.lease_ms,
        until=record.at + record.lease_ms,
        ordinals=(record.ordinal,),
    )
    block.give_to(old.holder, size_bytes=share)
    leases.grant(block)


def _report_reader(state: State, record: ReaderReported) -> None:
    topic = state.topics_by_id[record.topic]
    positions = topic.readers.get(record.reader)
    if positions is None:
        positions = topic.readers[record.reader] = [part.index.first for part in topic.partitions]
    for number, ordinal in record.positions:
        positions[number] = max(positions[number], ordinal)
    topic.seen_at[record.reader] = record.at
    count_all(state, topic, record.at)


_FOLDS: dict[type[Record], Callable[[State, "object"], None]] = {
    TopicCreated: _create_topic,  # type: ignore[dict-item]
    GroupCreated: _create_group,  # type: ignore[dict-item]
    MessagesDelivered: _deliver,  # type: ignore[dict-item]
    MessagesSettled: _settle,  # type: ignore[dict-item]
    DeliveriesEnded: _end_deliveries,  # type: ignore[dict-item]
    LeaseExtended: _extend,  # type: ignore[dict-item]
    ReaderReported: _report_reader,  # type: ignore[dict-item]
    PartitionsTrimmed: trim,  # type: ignore[dict-item]
    TopicDeleted: delete_topic,  # type: ignore[dict-item]
    GroupReset: reset_group,  # type: ignore[dict-item]
    GroupDeleted: delete_group,  # type: ignore[dict-item]
    SegmentRolled: roll,  # type: ignore[dict-item]
}

"""Folding a record into the state: the same function when it has just been decided and at a restart."""

from array import array
from collections.abc import Callable, Sequence
from operator import itemgetter

from driftq.core.effects import EFFECTS_TOPIC, LONG_EFFECTS_TOPIC, PendingEffect, step_of
from driftq.core.evolve.delays import delay, end_delays
from driftq.core.evolve.remove import delete_group, delete_topic, reset_group, roll, trim
from driftq.core.group import ACK_TIMEOUT, Group, GroupPartition
from driftq.core.index import pack_places
from driftq.core.jobs.transitions import fold_job
from driftq.core.lease import LeaseBlock
from driftq.core.owners import OwnedKind, OwnerSet
from driftq.core.records import (
    CAUSE_EXPIRED,
    CAUSE_UNSTARTED,
    SETTLED_SKIPPED,
    DeadLettersPurged,
    DeadLettersRedriven,
    DelaysEnded,
    DeliveriesEnded,
    EffectBegun,
    EffectCommitted,
    EffectFailed,
    GroupCreated,
    GroupDeleted,
    GroupReset,
    LaneMoved,
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
    WriterOpened,
    run_of,
    unpack_array,
)
from driftq.core.schedules.records import ScheduleRecord
from driftq.core.schedules.transitions import fold_schedule
from driftq.core.state import PositionWriter, State, Topic
from driftq.model.topic import DEAD_LETTER_PREFIX


def evolve(state: State, record: Record, *, segment: int, blob_at: int) -> None:
    """Apply the record to the state. `segment` and `blob_at` locate its blob in the log."""
    if record.at > state.last_at:
        state.last_at = record.at
    if type(record) is MessagesStored:
        store(state, record, segment=segment, blob_at=blob_at)
    else:
        fold = _FOLDS.get(type(record))
        if fold is not None:
            fold(state, record)
        elif isinstance(record, ScheduleRecord):
            fold_schedule(state.schedules, record)
        else:
            fold_job(state.jobs, record)


def _create_topic(state: State, record: TopicCreated) -> None:
    topic = Topic(
        id=record.topic,
        name=record.name,
        partitions=record.partitions,
        options=record.options,
        limits=state.limits,
        start_offset=record.start_offset,
        created_at=record.at,
        tenant=record.tenant,
    )
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
    places = pack_places(blob_at, lengths, record.flags)
    terms, deadlines = _special(state, record)
    delays = unpack_array("Q", record.delays) if record.delays else None
    retention_ms = topic.retention_ms
    if record.partition >= 0:
        part = topic.partitions[record.partition]
        before = part.index.total_bytes
        part.index.add_run(
            segment,
            offsets=offsets,
            places=places,
            sizes=sizes,
            terms=terms,
            deadlines=deadlines,
            delays=delays,
        )
        part.ages.note(record.at, part.index.end, retention_ms=retention_ms)
        part.pressure += count
        part.pressure_bytes += part.index.total_bytes - before
        if delays:
            delay(state, topic, record.partition, delays)
    else:
        slots_of: dict[int, list[int]] = {}
        for slot, number in enumerate(unpack_array("H", record.partitions)):
            slots_of.setdefault(number, []).append(slot)
        for number, slots in slots_of.items():
            mine = itemgetter(*slots) if len(slots) > 1 else _only(slots[0])
            part = topic.partitions[number]
            before = part.index.total_bytes
            part.index.add_run(
                segment,
                offsets=mine(offsets),
                places=mine(places),
                sizes=mine(sizes),
                terms=mine(terms) if terms else None,
                deadlines=mine(deadlines) if deadlines else None,
                delays=mine(delays) if delays else None,
            )
            part.ages.note(record.at, part.index.end, retention_ms=retention_ms)
            part.pressure += len(slots)
            part.pressure_bytes += part.index.total_bytes - before
            if delays:
                delay(state, topic, number, mine(delays))
    if record.fingerprints:
        _claim_keys(state, topic, record)


def _only(slot: int) -> Callable[[Sequence[int]], tuple[int, ...]]:
    return lambda numbers: (numbers[slot],)


def _special(state: State, record: MessagesStored) -> tuple[list[int] | None, "array[int] | None"]:
    """Numbers of terms, and deadlines, of each message; None where no message has any."""
    terms: list[int] | None = None
    if record.terms_of:
        numbers = [0, *[state.number_of(one) for one in record.terms]]
        terms = [numbers[slot] for slot in unpack_array("H", record.terms_of)]
    return terms, unpack_array("Q", record.deadlines) if record.deadlines else None


def _claim_keys(state: State, topic: Topic, record: MessagesStored) -> None:
    prints: Sequence[int] = unpack_array("Q", record.fingerprints)
    offsets: Sequence[int] = range(record.first_offset, record.first_offset + len(prints))
    if 0 in prints:  # Messages without a key are among them.
        offsets = [offset for offset, print_ in zip(offsets, prints, strict=True) if print_]
        prints = [print_ for print_ in prints if print_]
    if not topic.has_dead_letters:
        state.dead_letter_ids.add_all(prints, offsets, topic=topic.id)
        return
    keys = state.keys
    if topic.name == EFFECTS_TOPIC:
        keys = state.effects.committed
    elif topic.name == LONG_EFFECTS_TOPIC:
        keys = state.effects.long
    keys.add_all(prints, offsets, topic=topic.id, at=record.at)


def _create_group(state: State, record: GroupCreated) -> None:
    topic = state.topics_by_id[record.topic]
    group = Group(
        id=record.group,
        name=record.name,
        topic=topic.name,
        partitions=[
            GroupPartition(part.index, start=start, attempt_base=record.attempt_base)
            for part, start in zip(topic.partitions, record.starts, strict=True)
        ],
    )
    group.seen_at = record.at
    topic.groups[record.name] = group
    state.groups_by_id[record.group] = group
    state.next_group = record.group + 1
    state.count_pressure(topic, record.at)


def _see(state: State, group: Group, at: int) -> None:
    """The group is active; if it was absent for so long that it did not count, it counts again."""
    before, group.seen_at = group.seen_at, at
    topic = state.topics[group.topic]
    if at - before > topic.retention_ms:
        state.count_pressure(topic, at)


def deliver(state: State, record: MessagesDelivered) -> list[LeaseBlock]:
    """Lease the delivered messages; returns the blocks, fresh ones first, in the record's order."""
    group = state.groups_by_id[record.group]
    _see(state, group, record.at)
    progress = group.partitions[record.partition]
    progress.cover(record.upto)
    blocks: list[LeaseBlock] = []
    first, highest = progress.attempt_base + 1, progress.highest_attempt
    if record.fresh and highest < first:
        highest = first
    for fresh in record.fresh:
        block = LeaseBlock(
            owner=fresh.owner,
            lease_ms=fresh.lease_ms,
            until=record.at + fresh.lease_ms,
            ordinals=range(fresh.start, fresh.stop, fresh.step),
        )
        progress.leases.grant(block)
        blocks.append(block)
    for again in record.redelivered:
        for ordinal in again.ordinals:
            progress.stop_waiting(ordinal)
            attempt = progress.attempts[ordinal] = progress.attempts.get(ordinal, first) + 1
            if attempt > highest:
                highest = attempt
        block = LeaseBlock(
            owner=again.owner,
            lease_ms=again.lease_ms,
            until=record.at + again.lease_ms,
            ordinals=again.ordinals,
        )
        progress.leases.grant(block)
        blocks.append(block)
    progress.highest_attempt = highest
    if progress.due_first is not None:
        progress.forget_delivered()
    return blocks


def _deliver(state: State, record: MessagesDelivered) -> None:
    deliver(state, record)


def _ordinals(record: MessagesSettled) -> Sequence[int]:
    """The settled ordinals, as a range when they are contiguous."""
    base, count = record.base, len(record.deltas) // 4
    if record.deltas == run_of(count):
        return range(base, base + count)
    return [base + delta for delta in unpack_array("I", record.deltas)]


def _settle(state: State, record: MessagesSettled) -> None:
    group = state.groups_by_id[record.group]
    _see(state, group, record.at)
    progress = group.partitions[record.partition]
    ordinals = _ordinals(record)
    highest = ordinals[-1] if isinstance(ordinals, range) else max(ordinals)
    progress.cover(highest + 1)
    progress.leases.release_all(ordinals)
    if isinstance(ordinals, range) and ordinals.start == progress.floor and not progress.ahead_count:
        progress.settle_run(ordinals.start, ordinals.stop)
    else:
        for ordinal in ordinals:
            progress.settle(ordinal)
        progress.advance()
    if record.cause != SETTLED_SKIPPED:
        progress.acked = max(progress.acked, progress.index.offset_at(highest))
    state.topics[group.topic].partitions[record.partition].relieved = True


def _end_deliveries(state: State, record: DeliveriesEnded) -> None:
    progress = state.progress(record.group, record.partition)
    for ended in record.ended:
        progress.leases.release(ended.ordinal)
        progress.attempts.setdefault(ended.ordinal, progress.attempt_base + 1)
        if ended.error:
            progress.errors[ended.ordinal] = ended.error
        elif record.cause == CAUSE_EXPIRED:
            progress.errors.setdefault(ended.ordinal, ACK_TIMEOUT)
        if record.cause == CAUSE_UNSTARTED:
            progress.uncounted[ended.ordinal] = progress.uncounted.get(ended.ordinal, 0) + 1
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
    block.charge_to(old.credit, size_bytes=share)
    leases.grant(block)


def _report_reader(state: State, record: ReaderReported) -> None:
    topic = state.topics_by_id[record.topic]
    positions = topic.readers.get(record.reader)
    if positions is None:
        positions = topic.readers[record.reader] = [part.index.first for part in topic.partitions]
    for number, ordinal in record.positions:
        positions[number] = max(positions[number], ordinal)
    topic.seen_at[record.reader] = record.at
    state.count_pressure(topic, record.at)


def _begin_effect(state: State, record: EffectBegun) -> None:
    until = record.at + record.lease_ms
    pending = PendingEffect(record.owner, record.token, until, record.at, record.topic, record.terms)
    state.effects.begin(record.identity, pending)


def _fail_effect(state: State, record: EffectFailed) -> None:
    state.effects.fail(record.identity, topic=record.topic, error=record.error, at=record.at)


def _commit_effect(state: State, record: EffectCommitted) -> None:
    state.effects.commit(record.identity, topic=record.topic)
    step = step_of(record.identity)
    if step is not None and record.stored_in:
        offset = state.topics_by_id[record.stored_in].next_offset - 1
        state.effects.commit_step(step[0], topic=record.stored_in, offset=offset, at=record.at)


def _redrive(state: State, record: DeadLettersRedriven) -> None:
    topic = state.topics_by_id[record.topic]
    topic.redriven.update(dict.fromkeys(record.offsets, (record.at, record.by)))


def _purge(state: State, record: DeadLettersPurged) -> None:
    topic = state.topics_by_id[record.topic]
    topic.purged.update(record.offsets)
    state.dead_letter_ids.remove(topic.id, record.offsets)
    for offset in record.offsets:
        topic.redriven.pop(offset, None)


def _open_writer(state: State, record: WriterOpened) -> None:
    writers = state.topics_by_id[record.topic].writers
    writers.setdefault(record.writer, PositionWriter()).epoch = record.epoch


def _move_lane(state: State, record: LaneMoved) -> None:
    writer = state.topics_by_id[record.topic].writers.setdefault(record.writer, PositionWriter())
    writer.epoch = record.epoch
    writer.lanes[record.lane] = record.position


def _set_owner(state: State, record: OwnerSet) -> None:
    kind = OwnedKind(record.kind)
    if kind is OwnedKind.TOPIC:
        state.topics[record.name].tenant = record.tenant
        dlq_topic = state.topics.get(DEAD_LETTER_PREFIX + record.name)
        if dlq_topic is not None:
            dlq_topic.tenant = record.tenant
    else:
        state.owners.by_name(kind)[record.name] = record.tenant


_FOLDS: dict[type[Record], Callable[[State, "object"], None]] = {
    TopicCreated: _create_topic,  # type: ignore[dict-item]
    GroupCreated: _create_group,  # type: ignore[dict-item]
    DelaysEnded: end_delays,  # type: ignore[dict-item]
    MessagesDelivered: _deliver,  # type: ignore[dict-item]
    MessagesSettled: _settle,  # type: ignore[dict-item]
    DeliveriesEnded: _end_deliveries,  # type: ignore[dict-item]
    LeaseExtended: _extend,  # type: ignore[dict-item]
    ReaderReported: _report_reader,  # type: ignore[dict-item]
    EffectBegun: _begin_effect,  # type: ignore[dict-item]
    EffectFailed: _fail_effect,  # type: ignore[dict-item]
    EffectCommitted: _commit_effect,  # type: ignore[dict-item]
    DeadLettersRedriven: _redrive,  # type: ignore[dict-item]
    DeadLettersPurged: _purge,  # type: ignore[dict-item]
    PartitionsTrimmed: trim,  # type: ignore[dict-item]
    TopicDeleted: delete_topic,  # type: ignore[dict-item]
    GroupReset: reset_group,  # type: ignore[dict-item]
    GroupDeleted: delete_group,  # type: ignore[dict-item]
    SegmentRolled: roll,  # type: ignore[dict-item]
    WriterOpened: _open_writer,  # type: ignore[dict-item]
    LaneMoved: _move_lane,  # type: ignore[dict-item]
    OwnerSet: _set_owner,  # type: ignore[dict-item]
}

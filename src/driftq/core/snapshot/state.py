"""The state as named byte strings and back: all of it but the arrays that say where each message is.

One pair of functions a component, each with parts of its own. A component that is added later is missing
from older snapshots, and its `load` has to do without.
"""

from array import array
from collections.abc import Mapping

import msgspec

from driftq.core.delays import DueQueue
from driftq.core.group import Group, GroupPartition
from driftq.core.lease import LeaseBlock
from driftq.core.memory import DeletedTopic
from driftq.core.snapshot.components import dump_components, load_components
from driftq.core.state import PositionWriter, State, Topic
from driftq.model import TopicOptions
from driftq.model.options.limits import Limits

Parts = Mapping[str, memoryview]


class _Lease(msgspec.Struct, array_like=True):
    owner: str
    lease_ms: int
    until: int
    ordinals: list[int]


class _Progress(msgspec.Struct, array_like=True):
    floor: int
    upto: int
    acked: int
    ahead: bytes
    ahead_bytes: int
    leases: list[_Lease]
    attempts: dict[int, int]
    errors: dict[int, str]
    waiting: dict[int, int]
    attempt_base: int = 0
    highest_attempt: int = -1
    """-1 in a snapshot of an older version, which lacks it."""
    uncounted: dict[int, int] = {}
    due_first: bytes = b""


class _Group(msgspec.Struct, array_like=True):
    id: int
    name: str
    seen_at: int
    partitions: list[_Progress]


class _Partition(msgspec.Struct, array_like=True):
    first: int
    first_offset: int
    end: int
    bytes_before: int
    total_bytes: int
    ages: tuple[bytes, bytes, int]
    specials: tuple[bytes, bytes, bytes] = (b"", b"", b"")
    delays: bytes = b""


class _Topic(msgspec.Struct, array_like=True):
    id: int
    name: str
    options: TopicOptions
    next_offset: int
    partitions: list[_Partition]
    groups: list[_Group]
    readers: dict[str, list[int]]
    seen_at: dict[str, int]
    redriven: dict[int, tuple[int, str]] = {}
    purged: list[int] = []
    writers: dict[str, tuple[int, dict[int, int]]] = {}
    """Epoch and lanes of each."""
    start_offset: int = 0
    created_at: int = 0
    deleted_groups: list[tuple[str, int, int]] = []
    tenant: str = ""


class _Clock(msgspec.Struct, array_like=True):
    last_at: int
    next_topic: int
    next_group: int


_encode = msgspec.msgpack.Encoder().encode
_topics = msgspec.msgpack.Decoder(list[_Topic])
_clock = msgspec.msgpack.Decoder(_Clock)
_deleted_topics = msgspec.msgpack.Decoder(list[tuple[str, int, DeletedTopic]])


def dump_state(state: State) -> dict[str, bytes]:
    """Everything that a restart needs besides the index."""
    clock = _Clock(state.last_at, state.next_topic, state.next_group)
    topics = [_dump_topic(topic, now=state.last_at) for topic in state.topics_by_id.values()]
    return {
        "clock": _encode(clock),
        "topics": _encode(topics),
        "deleted_topics": _encode(state.deleted_topics.dump(now=state.last_at)),
        **state.keys.dump("keys"),
        **dump_components(state),
    }


def load_state(parts: Parts, limits: Limits) -> State:
    """The state without its index: chunks are attached next, then `settle_loaded` is called."""
    state = State(limits)
    clock = _clock.decode(parts["clock"])
    state.last_at, state.next_topic, state.next_group = clock.last_at, clock.next_topic, clock.next_group
    for dumped in _topics.decode(parts["topics"]):
        topic = _load_topic(dumped, limits)
        state.topics[topic.name] = state.topics_by_id[topic.id] = topic
        for group in topic.groups.values():
            state.groups_by_id[group.id] = group
        for number in range(len(topic.partitions)):
            state.schedule_delays(topic, number)
    if "deleted_topics" in parts:
        state.deleted_topics.load(_deleted_topics.decode(parts["deleted_topics"]))
    state.keys.load(parts, "keys")
    load_components(parts, state)
    return state


def settle_loaded(state: State) -> None:
    """Derive what is not in the snapshot, when the index is whole."""
    for topic in state.topics.values():
        for number in range(len(topic.partitions)):
            topic.count_pressure(number, limits=state.limits, now=state.last_at)


def _dump_topic(topic: Topic, *, now: int) -> _Topic:
    return _Topic(
        id=topic.id,
        name=topic.name,
        options=topic.options,
        next_offset=topic.next_offset,
        partitions=[
            _Partition(
                first=part.index.first,
                first_offset=part.index.first_offset,
                end=part.index.end,
                bytes_before=part.index.bytes_before,
                total_bytes=part.index.total_bytes,
                ages=part.ages.dump(),
                specials=part.index.specials.dump(),
                delays=part.index.specials.dump_delays(),
            )
            for part in topic.partitions
        ],
        groups=[_dump_group(group) for group in topic.groups.values()],
        readers=topic.readers,
        seen_at=topic.seen_at,
        redriven=topic.redriven,
        purged=sorted(topic.purged),
        writers={name: (writer.epoch, writer.lanes) for name, writer in topic.writers.items()},
        start_offset=topic.start_offset,
        created_at=topic.created_at,
        deleted_groups=topic.deleted_groups.dump(now=now),
        tenant=topic.tenant,
    )


def _load_topic(dumped: _Topic, limits: Limits) -> Topic:
    topic = Topic(
        id=dumped.id,
        name=dumped.name,
        partitions=len(dumped.partitions),
        options=dumped.options,
        limits=limits,
        start_offset=dumped.start_offset,
        created_at=dumped.created_at,
        tenant=dumped.tenant,
    )
    topic.next_offset = dumped.next_offset
    for part, facts in zip(topic.partitions, dumped.partitions, strict=True):
        index = part.index
        index.first, index.first_offset, index.end = facts.first, facts.first_offset, facts.end
        index.bytes_before, index.total_bytes = facts.bytes_before, facts.total_bytes
        part.ages.load(facts.ages)
        index.specials.load(facts.specials, facts.delays)
    topic.groups = {group.name: _load_group(group, topic) for group in dumped.groups}
    topic.deleted_groups.load(dumped.deleted_groups)
    topic.readers = dumped.readers
    topic.seen_at = dumped.seen_at
    topic.redriven = dumped.redriven
    topic.purged = set(dumped.purged)
    topic.writers = {name: PositionWriter(epoch, lanes) for name, (epoch, lanes) in dumped.writers.items()}
    return topic


def _dump_group(group: Group) -> _Group:
    return _Group(group.id, group.name, group.seen_at, [_dump_progress(part) for part in group.partitions])


def _load_group(dumped: _Group, topic: Topic) -> Group:
    partitions = [
        _load_progress(
            progress, GroupPartition(part.index, start=progress.floor, attempt_base=progress.attempt_base)
        )
        for part, progress in zip(topic.partitions, dumped.partitions, strict=True)
    ]
    group = Group(id=dumped.id, name=dumped.name, topic=topic.name, partitions=partitions)
    group.seen_at = dumped.seen_at
    return group


def _dump_progress(progress: GroupPartition) -> _Progress:
    return _Progress(
        floor=progress.floor,
        upto=progress.upto,
        acked=progress.acked,
        ahead=bytes(progress.ahead),
        ahead_bytes=progress.ahead_bytes,
        leases=[
            _Lease(block.owner, block.lease_ms, block.until, held) for block, held in progress.leases.blocks()
        ],
        attempts=progress.attempts,
        errors=progress.errors,
        waiting=progress.waiting,
        attempt_base=progress.attempt_base,
        highest_attempt=progress.highest_attempt,
        uncounted=progress.uncounted,
        due_first=array("Q", filter(progress.awaits_first, progress.due_first or ())).tobytes(),
    )


def _load_progress(dumped: _Progress, progress: GroupPartition) -> GroupPartition:
    progress.upto, progress.acked = dumped.upto, dumped.acked
    progress.ahead = bytearray(dumped.ahead)
    progress.ahead_count = dumped.ahead.count(1)
    progress.ahead_bytes = dumped.ahead_bytes
    for lease in dumped.leases:
        block = LeaseBlock(
            owner=lease.owner, lease_ms=lease.lease_ms, until=lease.until, ordinals=lease.ordinals
        )
        progress.leases.grant(block)
    progress.attempts, progress.errors = dumped.attempts, dumped.errors
    progress.highest_attempt = dumped.highest_attempt
    if dumped.highest_attempt < 0:  # At least one of those that are still there.
        progress.highest_attempt = max([1 if dumped.upto else 0, *dumped.attempts.values()])
    progress.uncounted = dumped.uncounted
    if dumped.due_first:
        progress.due_first = DueQueue(dumped.due_first)
    for ordinal, due_at in dumped.waiting.items():
        progress.wait_until(ordinal, due_at)
    return progress

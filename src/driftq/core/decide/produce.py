"""Which of the produced messages are stored, where, and which are refused or duplicates.

One call decides all messages of one turn for a topic, so that they become few records. A message is
refused alone: its neighbours are stored.
"""

from collections.abc import Callable, Sequence

import msgspec

from driftq.core.commands import Produce
from driftq.core.decide.new_messages import room_for_all, stored_records
from driftq.core.keys import MessageRef
from driftq.core.records import MessagesStored
from driftq.core.state import Partition, State, Topic
from driftq.errors import DriftQError, IdempotencyFull, IdempotencyMismatch, InvalidArgument, Overloaded
from driftq.model import StoredMessage
from driftq.model.partitioner import partition_of

_RECOUNT_MS = 1_000
"""A full partition is counted again after this time, because an absent group may no longer count."""

Lookup = Callable[[MessageRef], StoredMessage | None]
"""Reads the message that holds a key; None when it is no longer stored."""


class Duplicate(msgspec.Struct, gc=False):
    """The message is stored already, in the topic that it went to then."""

    topic: str
    partition: int
    offset: int
    payload_mismatch: bool


Accepted = tuple[int, int]
"""Partition and offset of a stored message."""

Outcome = Accepted | Duplicate | DriftQError

PlacedKeys = dict[int, list[tuple[Produce, Accepted]]]
"""Keys of messages that are placed and not folded yet, by fingerprint."""


class ProduceBatch(msgspec.Struct):
    """Records with the messages' stored forms, and an outcome for each command."""

    records: list[tuple[MessagesStored, list[bytes]]]
    outcomes: list[Outcome]


def decide_produce(
    state: State,
    topic: Topic,
    commands: Sequence[Produce],
    *,
    lookup: Lookup,
    now: int,
    wall: int,
    placed_keys: PlacedKeys | None = None,
    unlimited: bool = False,
    new_keys: bool = False,
) -> ProduceBatch:
    """Decide all of a topic's new messages at once. Deadlines and instants are compared with `wall`.

    `placed_keys` is given, and filled, where several topics' parts are decided before any of them is folded.
    No limit applies to `unlimited` messages. `new_keys`: no key among them is live or occurs twice.
    """
    plain = _are_plain(commands)
    fresh = plain or _are_fresh(state, commands, placed_keys, new_keys=new_keys)
    sizes = [command.size_bytes for command in commands]
    partitions = (
        room_for_all(state, topic, [command.key for command in commands], sum(sizes)) if fresh else None
    )
    if partitions is not None:
        first = topic.next_offset
        return ProduceBatch(
            records=_records(topic, commands, partitions, sizes, plain=plain, now=now, wall=wall),
            outcomes=list(zip(partitions, range(first, first + len(commands)), strict=True)),
        )
    plan = _Plan(
        state,
        topic,
        lookup=lookup,
        now=now,
        wall=wall,
        placed_keys={} if placed_keys is None else placed_keys,
        unlimited=unlimited,
    )
    outcomes = [plan.place(command) for command in commands]
    sizes = [command.size_bytes for command in plan.accepted]
    records = _records(topic, plan.accepted, plan.partitions, sizes, plain=False, now=now, wall=wall)
    return ProduceBatch(records=records, outcomes=outcomes)


def _are_plain(commands: Sequence[Produce]) -> bool:
    for command in commands:  # noqa: SIM110 - half the cost of all() with a generator.
        if not command.plain:
            return False
    return True


def _are_fresh(
    state: State, commands: Sequence[Produce], placed_keys: PlacedKeys | None, *, new_keys: bool
) -> bool:
    """No command has a target or an instant, and no key is live, occurs twice, or exceeds the limit."""
    prints: list[int] = []
    for command in commands:
        if command.override is not None or command.deadline is not None or command.deliver_at is not None:
            return False
        if command.fingerprint:
            prints.append(command.fingerprint)
    if not prints:
        return True
    known = state.keys
    if placed_keys is not None:
        return False
    if not new_keys and (len(set(prints)) < len(prints) or not known.has_none(prints)):
        return False
    return len(known) + len(prints) < state.limits.idempotency_keys_max


def _records(
    topic: Topic,
    accepted: Sequence[Produce],
    partitions: list[int],
    sizes: list[int],
    *,
    plain: bool,
    now: int,
    wall: int,
) -> list[tuple[MessagesStored, list[bytes]]]:
    """The accepted messages, as records of bounded size."""
    entries = [command.entry for command in accepted]
    if plain:
        return stored_records(topic, partitions, sizes, entries, now=now)
    return stored_records(
        topic,
        partitions,
        sizes,
        entries,
        flags=bytes([command.flags for command in accepted]),
        fingerprints=[command.fingerprint for command in accepted],
        terms=[command.terms for command in accepted],
        deadlines=[command.deadline or 0 for command in accepted],
        delays=[_later(command.deliver_at, wall) for command in accepted],
        now=now,
    )


def _later(deliver_at: int | None, wall: int) -> int:
    """The instant; 0 for none, and for one that has come."""
    return deliver_at if deliver_at is not None and deliver_at > wall else 0


class _Plan:
    """The messages accepted so far; the state does not change before their records are folded."""

    def __init__(
        self,
        state: State,
        topic: Topic,
        *,
        lookup: Lookup,
        now: int,
        wall: int,
        placed_keys: PlacedKeys,
        unlimited: bool,
    ) -> None:
        self._unlimited = unlimited
        self._state = state
        self._topic = topic
        self._lookup = lookup
        self._now = now
        self._wall = wall
        self.accepted: list[Produce] = []
        self.partitions: list[int] = []
        self._next_offset = topic.next_offset
        self._added: dict[int, list[int]] = {}
        self._placed_keys = placed_keys

    def place(self, command: Produce) -> Outcome:
        topic = self._topic
        try:
            if command.deadline is not None and command.deadline <= self._wall:
                raise InvalidArgument("deadline", "is already past")
            delayed = command.deliver_at is not None and command.deliver_at > self._wall
            count = len(topic.partitions)
            if command.override is None:
                number = partition_of(command.key, partitions=count)
            elif 0 <= command.override < count:
                number = command.override
            else:
                raise InvalidArgument("partition_override", f"must be from 0 to {count - 1}")
            if command.fingerprint:
                known = self._find_duplicate(command)
                if known is not None:
                    return known
            if not self._unlimited:
                self._take_room(number, command.size_bytes, delayed=delayed)
        except DriftQError as refused:
            return refused
        placed = (number, self._next_offset)
        self._next_offset += 1
        self.accepted.append(command)
        self.partitions.append(number)
        if command.fingerprint:
            self._placed_keys.setdefault(command.fingerprint, []).append((command, placed))
        return placed

    def _take_room(self, number: int, size_bytes: int, *, delayed: bool) -> None:
        added = self._added.get(number)
        if added is None:
            added = self._added[number] = [0, 0]
        part = self._topic.partitions[number]
        limit = self._limit_hit(part, added, size_bytes, delayed=delayed)
        if limit and (part.relieved or self._now >= part.counted_at + _RECOUNT_MS):
            self._topic.count_pressure(number, limits=self._state.limits, now=self._now)
            limit = self._limit_hit(part, added, size_bytes, delayed=delayed)
        if limit and not self._is_bounded():
            limit = None
        if limit:
            raise Overloaded(self._topic.name, partition=number, limit=limit)
        added[0] += not delayed
        added[1] += size_bytes

    def _is_bounded(self) -> bool:
        """Without readers no message counts as unsettled, unless the profile counts all."""
        return bool(self._topic.groups or self._topic.readers or self._state.limits.count_unread)

    def _limit_hit(self, part: Partition, added: list[int], size_bytes: int, *, delayed: bool) -> str | None:
        limits = self._state.limits
        if not delayed and part.pressure + added[0] >= limits.partition_messages_max:
            return f"at most {limits.partition_messages_max} unsettled messages"
        if part.pressure_bytes + added[1] + size_bytes > limits.partition_bytes_max:
            return f"at most {limits.partition_bytes_max} unsettled bytes"
        return None

    def _find_duplicate(self, command: Produce) -> Duplicate | None:
        """The earlier message with this key, in the log or in this same plan."""
        for other, (partition, offset) in self._placed_keys.get(command.fingerprint, ()):
            if (other.tenant_id, other.requested_topic, other.idempotency_key) == (
                command.tenant_id,
                command.requested_topic,
                command.idempotency_key,
            ):
                same = (other.key, other.value) == (command.key, command.value)
                return self._duplicate(command, other.topic, partition, offset, same=same)
        state = self._state
        for ref in state.keys.find(command.fingerprint):
            topic = state.topics_by_id.get(ref.topic)
            if topic is None:
                continue  # The topic was deleted, and its keys with it.
            stored = self._lookup(ref)
            if stored is None:  # The message was dropped before its key expired: it is still a duplicate.
                return Duplicate(topic=topic.name, partition=0, offset=ref.offset, payload_mismatch=False)
            envelope = stored.envelope
            if (
                envelope is not None
                and envelope.idempotency_key == command.idempotency_key
                and (envelope.tenant_id or "") == command.tenant_id
                and (stored.requested_topic or topic.name) == command.requested_topic
            ):
                same = (stored.key, stored.value) == (command.key, command.value)
                found = topic.locate(ref.offset)
                partition = found[0] if found else 0
                return self._duplicate(command, topic.name, partition, ref.offset, same=same)
        if len(state.keys) + len(self._placed_keys) >= state.limits.idempotency_keys_max:
            raise IdempotencyFull(keys=len(state.keys))
        return None

    def _duplicate(
        self, command: Produce, topic: str, partition: int, offset: int, *, same: bool
    ) -> Duplicate:
        if not same and self._state.limits.refuse_mismatch:
            raise IdempotencyMismatch(command.idempotency_key, offset=offset)
        return Duplicate(topic=topic, partition=partition, offset=offset, payload_mismatch=not same)

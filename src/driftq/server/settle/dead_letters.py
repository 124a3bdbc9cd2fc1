"""Dead-lettering: the dead letter and the settlement are one durable write.

A dead letter is the stored message with the facts of its failure in the envelope. It goes to `dlq.<topic>`,
to the message's own partition modulo the number of partitions there: `dlq.<topic>` outlives its topic, which
may be recreated with another number. A message whose dead letter is not stored is not settled.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from driftq.core.commands import Produce
from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import settled
from driftq.core.decide.dead_letters import dead_letter_partition, decide_placing
from driftq.core.group import Group
from driftq.core.keys import MessageRef
from driftq.core.records import SETTLED_DEAD
from driftq.core.state import State
from driftq.errors import NotConfirmed
from driftq.model import DeadLetterFacts, Envelope
from driftq.model.time import rfc3339
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.deliver.consumers import Consumers
from driftq.server.dlq.handler_letters import dlq_topic_for
from driftq.server.produce.prepare import size_of
from driftq.server.turn import Turn
from driftq.server.wakeup import CommitBackoff
from driftq.storage.entry import decode_entry, encode_entry, encode_time
from driftq.telemetry.log_context import ids

if TYPE_CHECKING:
    from driftq.server.deliver.stage import Timers

_TOGETHER_BYTES = 4 << 20
_OVERHEAD_BYTES = 4_096

logger = logging.getLogger("driftq.engine")


class _NotStored:
    """Messages whose dead letters are not stored, and with each that was never delivered those after it.

    A group counts as having seen everything up to the highest message that is settled. So messages that were
    never delivered to it are settled in order, or they would be taken for delivered.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []
        self._first: dict[tuple[str, str, int], int] = {}

    def add(self, dead: DeadLettered, failure: str) -> None:
        self.failures.append(failure)
        if not dead.attempts:
            where = (dead.topic, dead.group, dead.partition)
            self._first[where] = min(dead.ordinal, self._first.get(where, dead.ordinal))

    def is_behind(self, dead: DeadLettered) -> bool:
        first = self._first.get((dead.topic, dead.group, dead.partition))
        return first is not None and not dead.attempts and dead.ordinal > first


class DeadLetterWriter:
    """Stores dead letters and settles their messages, for the stages that dead-letter."""

    def __init__(self, consumers: Consumers, timers: Timers) -> None:
        self._consumers = consumers
        self._timers = timers
        self._backoffs: dict[tuple[int, int], CommitBackoff] = {}
        """The backoff of groups' partitions whose dead letters could not be stored."""

    def cold(self, turn: Turn, messages: Sequence[DeadLettered]) -> list[MessageRef]:
        """The messages that must be read before their dead letters can be written."""
        return turn.lookup.cold([_ref(turn.state, dead) for dead in messages])

    def give_up(self, turn: Turn, messages: list[DeadLettered], group: Group, partition: int) -> bool:
        """Dead-letter messages of a group's partition that no request names; False when that has to wait.

        It waits while their messages must be read first, and after a try that failed. A timer makes a later
        turn look at the partition then.
        """
        if not messages:
            return True
        where = (group.id, partition)
        backoff = self._backoffs.get(where)
        if backoff is None or turn.now >= backoff.quiet_until:
            cold = self.cold(turn, messages)
            if cold:
                self._timers.set_when_read(turn, cold, group, partition)
                return False
            if self.dead_letter(turn, messages) is None:
                self._backoffs.pop(where, None)
                return True
            backoff = self._backoffs.setdefault(where, CommitBackoff())
            backoff.failed(turn.now)
        self._timers.set(group, partition, at=backoff.quiet_until)
        return False

    def forget_group(self, group: Group, partition: int) -> None:
        """The group was deleted."""
        self._backoffs.pop((group.id, partition), None)

    def dead_letter(self, turn: Turn, messages: Sequence[DeadLettered]) -> NotConfirmed | None:
        """Store the dead letters and settle their messages, in batches.

        None when all are stored. Otherwise why some are not: those are logged, they are not settled, nothing
        was appended for them, and the caller tries them later.
        """
        not_stored = _NotStored()
        pending: list[tuple[DeadLettered, Produce]] = []
        size = 0
        for dead in messages:
            if not_stored.is_behind(dead):
                continue
            try:
                command = _dead_letter_of(turn, dead)
            except NotConfirmed as unread:
                not_stored.add(dead, _log_failure(turn.state, dead, unread.cause))
                continue
            if pending and (size + len(command.entry) > _TOGETHER_BYTES or dead.topic != pending[0][0].topic):
                self._write(turn, pending, not_stored)
                pending, size = [], 0
            pending.append((dead, command))
            size += len(command.entry)
        if pending:
            self._write(turn, pending, not_stored)
        return NotConfirmed(not_stored.failures[0]) if not_stored.failures else None

    def _write(self, turn: Turn, pending: list[tuple[DeadLettered, Produce]], not_stored: _NotStored) -> None:
        """Store dead letters of one topic and settle their messages, without those that are refused."""
        journal = turn.journal
        pending = [(dead, command) for dead, command in pending if not not_stored.is_behind(dead)]
        if not pending:
            return
        origin = turn.state.topics[pending[0][0].topic]
        dlq_topic = dlq_topic_for(turn, origin.name)
        commands = [command for _, command in pending]
        for dead, command in pending:
            command.override = dead_letter_partition(dead.partition, partitions=len(dlq_topic.partitions))
        # A dead letter has no deadline, so that either clock serves.
        placed = decide_placing(
            turn.state, dlq_topic, commands, lookup=turn.lookup.message, now=turn.now, wall=turn.now
        )
        if placed.refused:
            for slot, cause in placed.refused.items():
                dead = pending[slot][0]
                not_stored.add(dead, _log_failure(turn.state, dead, cause))
            self._write(turn, [pending[slot] for slot in placed.partitions], not_stored)
            return
        journal.keep_together(sum(len(command.entry) + 64 for command in commands) + _OVERHEAD_BYTES)
        for record, entries in placed.batch.records:
            journal.add_stored(record, entries)
        settled_ordinals: dict[tuple[str, int], list[int]] = {}
        for slot in placed.partitions:
            dead = pending[slot][0]
            settled_ordinals.setdefault((dead.group, dead.partition), []).append(dead.ordinal)
        for (group_name, partition), ordinals in settled_ordinals.items():
            group = origin.groups[group_name]
            journal.add(settled(group, partition, ordinals, cause=SETTLED_DEAD, now=turn.now))
            self._consumers.wake(origin.name, group_name, partition)
        self._consumers.stored(dlq_topic.name, set(placed.partitions.values()))
        turn.counters.dead_lettered += len(placed.partitions)


def _ref(state: State, dead: DeadLettered) -> MessageRef:
    topic = state.topics[dead.topic]
    return MessageRef(topic=topic.id, offset=topic.partitions[dead.partition].index.offset_at(dead.ordinal))


def _log_failure(state: State, dead: DeadLettered, cause: str) -> str:
    offset = _ref(state, dead).offset
    logger.error(
        "the dead letter of %s/%d offset %d for group %s is not stored, so the message stays: %s",
        dead.topic,
        dead.partition,
        offset,
        dead.group,
        cause,
        extra=ids(topic=dead.topic, partition=dead.partition, offset=offset, group=dead.group),
    )
    return f"the dead letter of offset {offset} is not stored: {cause}"


def _dead_letter_of(turn: Turn, dead: DeadLettered) -> Produce:
    """The dead letter of a message; NotConfirmed when the message cannot be read."""
    ref = _ref(turn.state, dead)
    entry = turn.lookup.entry(ref)
    if entry is None:
        raise NotConfirmed("the message is no longer stored")
    stored = decode_entry(entry)
    facts = DeadLetterFacts(
        original_topic=dead.topic,
        original_partition=dead.partition,
        original_offset=ref.offset,
        group=dead.group,
        attempts=dead.attempts,
        last_error=dead.last_error,
        reason=dead.reason,
        at=rfc3339(turn.now),
    )
    envelope = msgspec.structs.replace(stored.envelope or Envelope(), dlq=facts)
    name = DEAD_LETTER_PREFIX + dead.topic
    return Produce(
        topic=name,
        requested_topic=name,
        key=stored.key,
        value=stored.value,
        size_bytes=size_of(stored.key) + size_of(stored.value),
        entry=encode_entry(msgspec.structs.replace(stored, envelope=envelope), encode_time(turn.now)),
        plain=False,
    )

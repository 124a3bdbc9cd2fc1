"""Giving messages up: the dead letter and the settlement are one durable write.

A dead letter is the stored message with the facts of its failure in the envelope. It lies in `dlq.<topic>`,
in the partition it came from, modulo the number of partitions there: `dlq.<topic>` outlives its topic, which
may be created again with another number. A message whose dead letter is not stored is not settled.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec

from driftq.core.commands import Produce
from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import settled
from driftq.core.decide.dead_letters import dead_letter_partition, decide_placing
from driftq.core.decide.topics import new_topic
from driftq.core.keys import MessageRef
from driftq.core.records import SETTLED_DEAD
from driftq.core.state import Topic
from driftq.errors import NotConfirmed
from driftq.model import DeadLetterFacts, Envelope
from driftq.model.time import rfc3339
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.counters import Counters
from driftq.server.deliver.consumers import Consumers
from driftq.server.lookup import MessageLookup
from driftq.server.produce.prepare import size_of
from driftq.storage.entry import decode_entry, encode_entry, encode_time
from driftq.storage.journal import Journal

_TOGETHER_BYTES = 4 << 20
_OVERHEAD_BYTES = 4_096

logger = logging.getLogger("driftq.engine")


class _HeldBack:
    """Messages whose letters are not stored, and with each that was never delivered those behind it.

    A group counts as having seen everything up to the highest message that is settled. So what it was never
    given is settled in order, or it would be taken for delivered.
    """

    def __init__(self) -> None:
        self.failures: list[str] = []
        self._first: dict[tuple[str, str, int], int] = {}

    def add(self, casualty: DeadLettered, failure: str) -> None:
        self.failures.append(failure)
        if not casualty.attempts:
            lane = (casualty.topic, casualty.group, casualty.partition)
            self._first[lane] = min(casualty.ordinal, self._first.get(lane, casualty.ordinal))

    def is_behind(self, casualty: DeadLettered) -> bool:
        first = self._first.get((casualty.topic, casualty.group, casualty.partition))
        return first is not None and not casualty.attempts and casualty.ordinal > first


class DeadLettering:
    """Writes dead letters."""

    def __init__(
        self, journal: Journal, lookup: MessageLookup, dispatcher: Consumers, counters: Counters
    ) -> None:
        self._journal = journal
        self._lookup = lookup
        self._consumers = dispatcher
        self._counters = counters

    def claim_of(self, casualty: DeadLettered) -> MessageRef:
        topic = self._journal.state.topics[casualty.topic]
        offset = topic.partitions[casualty.partition].index.offset_at(casualty.ordinal)
        return MessageRef(topic=topic.id, offset=offset)

    def cold(self, casualties: Sequence[DeadLettered]) -> list[MessageRef]:
        """The messages that must be read before they can be written again."""
        return self._lookup.cold(map(self.claim_of, casualties))

    def bury(self, casualties: Sequence[DeadLettered], now: int) -> NotConfirmed | None:
        """Write the letters and settle their messages, as many together as fit well.

        None when all are written. Otherwise why some are not: those are logged, they are not settled, nothing
        was appended for them, and whoever asked tries again later.
        """
        held = _HeldBack()
        pending: list[tuple[DeadLettered, Produce]] = []
        size = 0
        for casualty in casualties:
            if held.is_behind(casualty):
                continue
            try:
                letter = self._letter(casualty, now)
            except NotConfirmed as unread:
                held.add(casualty, self._failed(casualty, unread.cause))
                continue
            if pending and (
                size + len(letter.entry) > _TOGETHER_BYTES or casualty.topic != pending[0][0].topic
            ):
                self._write(pending, held, now)
                pending, size = [], 0
            pending.append((casualty, letter))
            size += len(letter.entry)
        if pending:
            self._write(pending, held, now)
        return NotConfirmed(held.failures[0]) if held.failures else None

    def _failed(self, casualty: DeadLettered, cause: str) -> str:
        offset = self.claim_of(casualty).offset
        logger.error(
            "the dead letter of %s/%d offset %d for group %s is not stored, so the message stays: %s",
            casualty.topic,
            casualty.partition,
            offset,
            casualty.group,
            cause,
        )
        return f"the dead letter of offset {offset} is not stored: {cause}"

    def _letter(self, casualty: DeadLettered, now: int) -> Produce:
        """The dead letter of a message; NotConfirmed when the message cannot be read."""
        claim = self.claim_of(casualty)
        entry = self._lookup.entry(claim)
        if entry is None:
            raise NotConfirmed("the message is no longer kept")
        stored = decode_entry(entry)
        facts = DeadLetterFacts(
            original_topic=casualty.topic,
            original_partition=casualty.partition,
            original_offset=claim.offset,
            group=casualty.group,
            attempts=casualty.attempts,
            last_error=casualty.last_error,
            reason=casualty.reason,
            at=rfc3339(now),
        )
        envelope = msgspec.structs.replace(stored.envelope or Envelope(), dlq=facts)
        letter = msgspec.structs.replace(stored, envelope=envelope)
        name = DEAD_LETTER_PREFIX + casualty.topic
        return Produce(
            topic=name,
            requested_topic=name,
            key=stored.key,
            value=stored.value,
            size_bytes=size_of(stored.key) + size_of(stored.value),
            entry=encode_entry(letter, encode_time(now)),
            plain=False,
        )

    def _write(self, pending: list[tuple[DeadLettered, Produce]], held: _HeldBack, now: int) -> None:
        """Write letters of one topic and settle their messages; one that is refused is held."""
        journal = self._journal
        pending = [(casualty, letter) for casualty, letter in pending if not held.is_behind(casualty)]
        if not pending:
            return
        origin = journal.state.topics[pending[0][0].topic]
        grave = self._grave(origin, now)
        letters = [letter for _, letter in pending]
        for casualty, letter in pending:
            letter.override = dead_letter_partition(casualty.partition, partitions=len(grave.partitions))
        recall = self._lookup.recall
        # A dead letter has no deadline, so that it makes no difference which clock says the time.
        placed = decide_placing(journal.state, grave, letters, recall=recall, now=now, wall=now)
        if placed.refused:
            for slot, cause in placed.refused.items():
                held.add(pending[slot][0], self._failed(pending[slot][0], cause))
            self._write([pending[slot] for slot in placed.partitions], held, now)
            return
        journal.keep_together(sum(len(letter.entry) + 64 for letter in letters) + _OVERHEAD_BYTES)
        for record, entries in placed.batch.records:
            journal.add_stored(record, entries)
        lanes: dict[tuple[str, int], list[int]] = {}
        for slot in placed.partitions:
            casualty = pending[slot][0]
            lanes.setdefault((casualty.group, casualty.partition), []).append(casualty.ordinal)
        for (group_name, partition), ordinals in lanes.items():
            group = origin.groups[group_name]
            journal.add(settled(group, partition, ordinals, cause=SETTLED_DEAD, now=now))
            self._consumers.wake(origin.name, group_name, partition)
        self._consumers.stored(grave.name, set(placed.partitions.values()))
        self._counters.dead_lettered += len(placed.partitions)

    def _grave(self, origin: Topic, now: int) -> Topic:
        """The dead-letter topic; if there is none, it is created with as many partitions."""
        state = self._journal.state
        name = DEAD_LETTER_PREFIX + origin.name
        if name not in state.topics:
            partitions = len(origin.partitions)
            self._journal.add(new_topic(state, name, partitions=partitions, options=origin.options, now=now))
        return state.topics[name]

"""Giving messages up: the dead letter and the settlement are one durable write.

A dead letter is the stored message with the facts of its failure in the envelope. It lies in `dlq.<topic>`,
in the partition it came from.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from driftq.core.casualty import Casualty
from driftq.core.commands import Produce
from driftq.core.decide import decide_produce, settled
from driftq.core.keys import Claim
from driftq.core.records import SETTLED_DEAD, TopicCreated
from driftq.core.state import Topic
from driftq.model import DeadLetterFacts, Envelope, StoredMessage
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.counters import Counters
from driftq.server.dispatcher import Dispatcher
from driftq.server.entry import decode_entry, encode_entry, encode_time
from driftq.server.ingest import size_of
from driftq.server.journal import Journal
from driftq.server.recaller import Recaller

_TOGETHER_BYTES = 4 << 20
_OVERHEAD_BYTES = 4_096


def rfc3339(at: int) -> str:
    """Milliseconds as a time in UTC."""
    instant = dt.datetime.fromtimestamp(at / 1000, dt.UTC)
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


class DeadLetters:
    """Writes dead letters."""

    def __init__(
        self, journal: Journal, recaller: Recaller, dispatcher: Dispatcher, counters: Counters
    ) -> None:
        self._journal = journal
        self._recaller = recaller
        self._dispatcher = dispatcher
        self._counters = counters

    def claim_of(self, casualty: Casualty) -> Claim:
        topic = self._journal.state.topics[casualty.topic]
        offset = topic.partitions[casualty.partition].index.offset_at(casualty.ordinal)
        return Claim(topic=topic.id, offset=offset)

    def cold(self, casualties: Sequence[Casualty]) -> list[Claim]:
        """The messages that must be read before they can be written again."""
        return self._recaller.cold(map(self.claim_of, casualties))

    def bury(self, casualties: Sequence[Casualty], now: int) -> None:
        """Write the letters and settle their messages, as many together as fit well."""
        pending: list[tuple[Casualty, Produce]] = []
        size = 0
        for casualty in casualties:
            letter = self._letter(casualty, now)
            if pending and (
                size + len(letter.entry) > _TOGETHER_BYTES or casualty.topic != pending[0][0].topic
            ):
                self._write(pending, now)
                pending, size = [], 0
            pending.append((casualty, letter))
            size += len(letter.entry)
        if pending:
            self._write(pending, now)

    def _letter(self, casualty: Casualty, now: int) -> Produce:
        claim = self.claim_of(casualty)
        entry = self._recaller.entry(claim)
        stored = decode_entry(entry) if entry is not None else StoredMessage(key="", value="")
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
            override=casualty.partition,
        )

    def _write(self, pending: list[tuple[Casualty, Produce]], now: int) -> None:
        journal = self._journal
        size = sum(len(letter.entry) + 64 for _, letter in pending)
        journal.keep_together(size + _OVERHEAD_BYTES)
        origin = journal.state.topics[pending[0][0].topic]
        grave = self._grave(origin, now)
        batch = decide_produce(
            journal.state,
            grave,
            [letter for _, letter in pending],
            recall=self._recaller.recall,
            now=now,
            unlimited=True,
        )
        for record, entries in batch.records:
            journal.add_stored(record, entries)
        lanes: dict[tuple[str, int], list[int]] = {}
        for casualty, _ in pending:
            lanes.setdefault((casualty.group, casualty.partition), []).append(casualty.ordinal)
        for (group_name, partition), ordinals in lanes.items():
            group = origin.groups[group_name]
            journal.add(settled(group, partition, ordinals, cause=SETTLED_DEAD, now=now))
            self._dispatcher.wake(origin.name, group_name, partition)
        self._dispatcher.stored(grave.name, {casualty.partition for casualty, _ in pending})
        self._counters.dead_lettered += len(pending)

    def _grave(self, origin: Topic, now: int) -> Topic:
        """The dead-letter topic, made on need with as many partitions."""
        state = self._journal.state
        name = DEAD_LETTER_PREFIX + origin.name
        if name not in state.topics:
            partitions = len(origin.partitions)
            self._journal.add(TopicCreated(now, state.next_topic, name, partitions, origin.options))
        return state.topics[name]

"""What becomes of dead letters: they are sent again, once each, or purged.

A dead letter is marked as redriven in the commit that stores its message, and only then. One that cannot be
sent is skipped, and the answer says why.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from driftq.core.commands import Produce
from driftq.core.decide.dead_letters import (
    ALREADY_REDRIVEN,
    GROUP_DELETED,
    NOT_FOUND,
    NOT_STORED,
    decide_placing,
    redrive_partition,
)
from driftq.core.keys import MessageRef
from driftq.core.records import DeadLettersPurged, DeadLettersRedriven, DeliveryTerms
from driftq.core.state import Topic
from driftq.errors import DriftQError, NotConfirmed, TopicNotFound
from driftq.model import DeadLetterFacts, Envelope
from driftq.model.time import parse_rfc3339
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.counters import Counters
from driftq.server.deliver.consumers import Consumers
from driftq.server.lookup import MessageLookup
from driftq.server.produce.prepare import size_of, terms_of
from driftq.server.requests import Reply
from driftq.storage.entry import decode_entry, encode_entry, encode_time
from driftq.storage.journal import Journal

TOGETHER_MAX = 100
"""Letters that one request may name."""
_OVERHEAD_BYTES = 16_384

logger = logging.getLogger("driftq.engine")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A dead letter that was not sent, and why; `group` gave it up and is gone, where that is the cause."""

    offset: int
    reason: str
    group: str | None = None


@dataclass(frozen=True, slots=True)
class RedriveOutcome:
    """What became of the letters of a redrive: each was sent or skipped."""

    sent: list[int] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RedriveRequest:
    """Send these letters of a topic again; answered by a Redriven. A dry run says what it would skip."""

    topic: str
    offsets: list[int]
    by: str
    all_groups: bool
    reply: Reply
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PurgeRequest:
    """Forget these letters of a topic; answered by the offsets that were there."""

    topic: str
    offsets: list[int]
    reply: Reply


LetterAsk = RedriveRequest | PurgeRequest
Replies = list[tuple[Reply, Any]]


class DlqStage:
    """The dead letters' part of a turn."""

    def __init__(
        self,
        journal: Journal,
        lookup: MessageLookup,
        dispatcher: Consumers,
        counters: Counters,
        *,
        again: Callable[[LetterAsk, NotConfirmed | None], None],
    ) -> None:
        self._journal = journal
        self._lookup = lookup
        self._consumers = dispatcher
        self._counters = counters
        self._again = again
        self.asked: list[LetterAsk] = []

    def turn(self, replies: Replies, now: int, *, wall: int) -> None:
        asked, self.asked = self.asked, []
        for request in asked:
            answer: list[int] | RedriveOutcome | DriftQError | None
            try:
                grave = self._grave(request.topic)
                if isinstance(request, RedriveRequest):
                    answer = self._redrive(request, grave, now=now, wall=wall)
                else:
                    answer = self._purge(request, grave, now)
            except DriftQError as refused:
                answer = refused
            if answer is not None:
                replies.append((request.reply, answer))

    def _purge(self, request: PurgeRequest, grave: Topic, now: int) -> list[int]:
        offsets = [one for one in dict.fromkeys(request.offsets) if _is_there(grave, one)]
        if offsets:
            self._journal.add(DeadLettersPurged(at=now, topic=grave.id, offsets=offsets))
        return offsets

    def _grave(self, name: str) -> Topic:
        grave = self._journal.state.topics.get(DEAD_LETTER_PREFIX + name)
        if grave is None:
            raise TopicNotFound(DEAD_LETTER_PREFIX + name)
        return grave

    def _redrive(
        self, request: RedriveRequest, grave: Topic, *, now: int, wall: int
    ) -> RedriveOutcome | None:
        """None while the letters have to be read first; the request comes again then."""
        origin = self._journal.state.topics.get(request.topic)
        if origin is None:
            raise TopicNotFound(request.topic)
        answer = RedriveOutcome()
        claims: list[MessageRef] = []
        for offset in dict.fromkeys(request.offsets):
            if not _is_there(grave, offset):
                answer.skipped.append(Skipped(offset, NOT_FOUND))
            elif offset in grave.redriven:
                answer.skipped.append(Skipped(offset, ALREADY_REDRIVEN))
            else:
                claims.append(MessageRef(grave.id, offset))
        cold = self._lookup.cold(claims)
        if cold:
            self._lookup.fetch(cold, lambda error: self._again(request, error))
            return None
        letters: dict[int, Produce] = {}
        for claim in claims:
            decided = self._message(claim, origin, all_groups=request.all_groups, now=now, wall=wall)
            if isinstance(decided, Skipped):
                answer.skipped.append(decided)
            else:
                letters[claim.offset] = decided
        if letters and not request.dry_run:
            self._send(request, grave, origin, letters, answer, now=now, wall=wall)
        return answer

    def _send(
        self,
        request: RedriveRequest,
        grave: Topic,
        origin: Topic,
        letters: dict[int, Produce],
        answer: RedriveOutcome,
        *,
        now: int,
        wall: int,
    ) -> None:
        """Append the letters' messages and mark those letters, no others, in one frame."""
        journal = self._journal
        offsets, commands = list(letters), list(letters.values())
        recall = self._lookup.recall
        placed = decide_placing(journal.state, origin, commands, recall=recall, now=now, wall=wall)
        for slot, cause in placed.refused.items():
            logger.error("dead letter %d of %s is not redriven: %s", offsets[slot], grave.name, cause)
            answer.skipped.append(Skipped(offsets[slot], NOT_STORED))
        answer.sent.extend(offsets[slot] for slot in placed.partitions)
        if not answer.sent:
            return
        journal.keep_together(sum(len(command.entry) + 64 for command in commands) + _OVERHEAD_BYTES)
        for record, entries in placed.batch.records:
            journal.add_stored(record, entries)
        journal.add(DeadLettersRedriven(at=now, topic=grave.id, offsets=list(answer.sent), by=request.by))
        self._consumers.stored(origin.name, set(placed.partitions.values()))
        self._counters.redriven += len(answer.sent)

    def _message(
        self, claim: MessageRef, origin: Topic, *, all_groups: bool, now: int, wall: int
    ) -> Produce | Skipped:
        """A new message from a letter: without facts of its death, a past deadline, or a key to claim.

        Skipped when the group that gave it up, known by its name, is not there: a message for no group in
        particular would go to all of them.
        """
        entry = self._lookup.entry(claim)
        if entry is None:
            return Skipped(claim.offset, NOT_FOUND)
        letter = decode_entry(entry)
        envelope = letter.envelope or Envelope()
        facts = envelope.dlq
        terms = (
            terms_of(envelope.retry_policy) if envelope.retry_policy is not None else None
        ) or DeliveryTerms()
        if not all_groups:
            name = facts.group if facts is not None else ""
            group = origin.groups.get(name)
            if group is None:
                return Skipped(claim.offset, GROUP_DELETED, name)
            terms = msgspec.structs.replace(terms, group=group.id)
        deadline = parse_rfc3339(envelope.deadline) if envelope.deadline else None
        if deadline is not None and deadline <= wall:
            deadline = None
            envelope = msgspec.structs.replace(envelope, deadline=None)
        envelope = msgspec.structs.replace(envelope, dlq=None)
        stored = msgspec.structs.replace(letter, envelope=None if envelope == Envelope() else envelope)
        return Produce(
            topic=origin.name,
            requested_topic=stored.requested_topic or origin.name,
            key=stored.key,
            value=stored.value,
            size_bytes=size_of(stored.key) + size_of(stored.value),
            entry=encode_entry(stored, encode_time(now)),
            plain=False,
            override=_partition(facts, origin),
            deadline=deadline,
            terms=terms if terms != DeliveryTerms() else None,
        )


def _partition(facts: DeadLetterFacts | None, origin: Topic) -> int | None:
    if facts is None:
        return None
    return redrive_partition(facts.original_partition, partitions=len(origin.partitions))


def _is_there(grave: Topic, offset: int) -> bool:
    return offset not in grave.purged and grave.locate(offset) is not None

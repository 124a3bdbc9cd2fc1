"""Dead letters in the engine's turn: they are redriven, once each, or purged; those of handlers are stored.

A dead letter is marked as redriven in the commit that stores its new message, and only then. It stays in its
topic until a purge removes it. One that cannot be sent is skipped, and the reply says why. A handler's dead
letter is always skipped: it is redriven in the registry or in the read model, and never to its topic.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import ClassVar

import msgspec

from driftq.core.commands import Produce
from driftq.core.decide.dead_letters import (
    ALREADY_REDRIVEN,
    GROUP_DELETED,
    NOT_FOUND,
    NOT_STORED,
    USE_DLQ_REDRIVE,
    decide_placing,
    redrive_partition,
)
from driftq.core.keys import MessageRef
from driftq.core.records import DeadLettersPurged, DeadLettersRedriven, DeliveryTerms
from driftq.core.state import Topic
from driftq.errors import DriftQError
from driftq.model import DeadLetterFacts, Envelope
from driftq.model.time import parse_rfc3339
from driftq.server.deliver.consumers import Consumers
from driftq.server.dlq.handler_letters import StoreDeadLettersRequest, StoredOutcome, store_dead_letters
from driftq.server.dlq.pages import dlq_topic_of
from driftq.server.maintenance.stage import MaintenanceStage
from driftq.server.produce.prepare import size_of, terms_of
from driftq.server.requests import Reply
from driftq.server.topics.views import find_topic
from driftq.server.turn import RequestQueue, Turn
from driftq.storage.entry import decode_entry, encode_entry, encode_time

TOGETHER_MAX = 100
"""Dead letters that one request may name."""
_OVERHEAD_BYTES = 16_384

logger = logging.getLogger("driftq.engine")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A dead letter that was not sent, and why; `group` is its deleted group, where that is the cause.

    `command` redrives it, where the server cannot.
    """

    offset: int
    reason: str
    group: str | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True)
class RedriveOutcome:
    """The outcome of a redrive: each dead letter was sent or skipped."""

    sent: list[int] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class RedriveRequest:
    """Redrive dead letters of a topic; answered by a RedriveOutcome. A dry run says what it would skip."""

    topic: str
    offsets: list[int]
    by: str
    all_groups: bool
    reply: Reply
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class PurgeRequest:
    """Purge these dead letters of a topic; answered by the offsets that existed."""

    topic: str
    offsets: list[int]
    reply: Reply


_DlqRequest = RedriveRequest | PurgeRequest | StoreDeadLettersRequest


class DlqStage(RequestQueue[_DlqRequest]):
    """Decides one request after the other, in the order of their submission."""

    handles: ClassVar = (RedriveRequest, PurgeRequest, StoreDeadLettersRequest)

    def __init__(self, consumers: Consumers, maintenance: MaintenanceStage) -> None:
        super().__init__()
        self._consumers = consumers
        self._maintenance = maintenance

    def submit(self, request: _DlqRequest) -> None:
        disk_full = self._maintenance.disk_full
        if disk_full is not None and isinstance(request, StoreDeadLettersRequest):
            request.reply(disk_full)  # Its relay still has them.
        else:
            self.requests.append(request)

    def decide(self, turn: Turn) -> None:
        if self.requests:
            for request in self.take():
                self._decide_one(turn, request)

    def _decide_one(self, turn: Turn, request: _DlqRequest) -> None:
        answer: list[int] | list[StoredOutcome] | RedriveOutcome | DriftQError | None
        if isinstance(request, StoreDeadLettersRequest):
            answer = store_dead_letters(turn, request, self._consumers)
            if answer is not None:
                turn.reply(request, answer)
            return
        try:
            dlq_topic = dlq_topic_of(turn.state, request.topic)
            if isinstance(request, RedriveRequest):
                answer = self._redrive(turn, request, dlq_topic)
            else:
                answer = _purge(turn, request, dlq_topic)
        except DriftQError as refused:
            answer = refused
        if answer is not None:
            turn.reply(request, answer)

    def _redrive(self, turn: Turn, request: RedriveRequest, dlq_topic: Topic) -> RedriveOutcome | None:
        """None while the dead letters have to be read first; the request is queued then."""
        origin = find_topic(turn.state, request.topic)
        outcome = RedriveOutcome()
        refs: list[MessageRef] = []
        for offset in dict.fromkeys(request.offsets):
            if not _is_there(dlq_topic, offset):
                outcome.skipped.append(Skipped(offset, NOT_FOUND))
            elif offset in dlq_topic.redriven:
                outcome.skipped.append(Skipped(offset, ALREADY_REDRIVEN))
            else:
                refs.append(MessageRef(dlq_topic.id, offset))
        cold = turn.lookup.cold(refs)
        if cold:
            turn.requeue_when_read(cold, request)
            return None
        commands: dict[int, Produce] = {}
        for ref in refs:
            decided = _redriven_message(turn, ref, origin, all_groups=request.all_groups)
            if isinstance(decided, Skipped):
                outcome.skipped.append(decided)
            else:
                commands[ref.offset] = decided
        if commands and not request.dry_run:
            self._send(turn, request, dlq_topic, origin, commands, outcome)
        return outcome

    def _send(
        self,
        turn: Turn,
        request: RedriveRequest,
        dlq_topic: Topic,
        origin: Topic,
        commands: dict[int, Produce],
        outcome: RedriveOutcome,
    ) -> None:
        """Append the messages and mark their dead letters, no others, in one frame."""
        journal = turn.journal
        offsets, messages = list(commands), list(commands.values())
        placed = decide_placing(
            turn.state, origin, messages, lookup=turn.lookup.message, now=turn.now, wall=turn.wall
        )
        for slot, cause in placed.refused.items():
            logger.error("dead letter %d of %s is not redriven: %s", offsets[slot], dlq_topic.name, cause)
            outcome.skipped.append(Skipped(offsets[slot], NOT_STORED))
        outcome.sent.extend(offsets[slot] for slot in placed.partitions)
        if not outcome.sent:
            return
        journal.keep_together(sum(len(message.entry) + 64 for message in messages) + _OVERHEAD_BYTES)
        for record, entries in placed.batch.records:
            journal.add_stored(record, entries)
        journal.add(
            DeadLettersRedriven(at=turn.now, topic=dlq_topic.id, offsets=list(outcome.sent), by=request.by)
        )
        self._consumers.stored(origin.name, set(placed.partitions.values()))
        turn.counters.redriven += len(outcome.sent)


def _purge(turn: Turn, request: PurgeRequest, dlq_topic: Topic) -> list[int]:
    offsets = [offset for offset in dict.fromkeys(request.offsets) if _is_there(dlq_topic, offset)]
    if offsets:
        turn.journal.add(DeadLettersPurged(at=turn.now, topic=dlq_topic.id, offsets=offsets))
    return offsets


def _redriven_message(turn: Turn, ref: MessageRef, origin: Topic, *, all_groups: bool) -> Produce | Skipped:
    """A new message from a dead letter: without the facts of its failure, a past deadline, a delay, or a key
    to claim.

    Skipped when the group that dead-lettered it, found by name, no longer exists: a message without a group
    would go to all of them.
    """
    entry = turn.lookup.entry(ref)
    if entry is None:
        return Skipped(ref.offset, NOT_FOUND)
    dead_letter = decode_entry(entry)
    envelope = dead_letter.envelope or Envelope()
    facts = envelope.dlq
    if facts is not None and facts.kind is not None:
        command = f"driftq dlq redrive {facts.original_topic} --id {facts.id}"
        return Skipped(ref.offset, USE_DLQ_REDRIVE, facts.group, command)
    terms = (
        terms_of(envelope.retry_policy) if envelope.retry_policy is not None else None
    ) or DeliveryTerms()
    if not all_groups:
        name = facts.group if facts is not None else ""
        group = origin.groups.get(name)
        if group is None:
            return Skipped(ref.offset, GROUP_DELETED, name)
        terms = msgspec.structs.replace(terms, group=group.id)
    deadline = parse_rfc3339(envelope.deadline) if envelope.deadline else None
    if deadline is not None and deadline <= turn.wall:
        deadline = None
        envelope = msgspec.structs.replace(envelope, deadline=None)
    envelope = msgspec.structs.replace(envelope, dlq=None, deliver_at=None)
    stored = msgspec.structs.replace(dead_letter, envelope=None if envelope == Envelope() else envelope)
    return Produce(
        topic=origin.name,
        requested_topic=stored.requested_topic or origin.name,
        key=stored.key,
        value=stored.value,
        size_bytes=size_of(stored.key) + size_of(stored.value),
        entry=encode_entry(stored, encode_time(turn.now)),
        plain=False,
        override=_partition(facts, origin),
        deadline=deadline,
        terms=terms if terms != DeliveryTerms() else None,
    )


def _partition(facts: DeadLetterFacts | None, origin: Topic) -> int | None:
    if facts is None:
        return None
    return redrive_partition(facts.original_partition, partitions=len(origin.partitions))


def _is_there(dlq_topic: Topic, offset: int) -> bool:
    return offset not in dlq_topic.purged and dlq_topic.locate(offset) is not None

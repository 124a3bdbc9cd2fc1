"""What becomes of dead letters: they are sent again, once each, or purged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from driftq.core.commands import Produce
from driftq.core.decide import decide_produce
from driftq.core.keys import Claim
from driftq.core.records import LettersPurged, LettersRedriven, Terms
from driftq.core.state import Topic
from driftq.errors import DriftQError, NotConfirmed, TopicNotFound
from driftq.model import DeadLetterFacts, Envelope, StoredMessage
from driftq.model.envelope import deadline_ms
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.counters import Counters
from driftq.server.dispatcher import Dispatcher
from driftq.server.entry import decode_entry, encode_entry, encode_time
from driftq.server.ingest import size_of, terms_of
from driftq.server.journal import Journal
from driftq.server.recaller import Recaller
from driftq.server.requests import Reply

TOGETHER_MAX = 100
"""Letters that one request may name."""
_OVERHEAD_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class RedriveRequest:
    """Send these letters of a topic again; answered by the offsets that were sent, the others were before."""

    topic: str
    offsets: list[int]
    by: str
    all_groups: bool
    reply: Reply


@dataclass(frozen=True, slots=True)
class PurgeRequest:
    """Forget these letters of a topic; answered by the offsets that were there."""

    topic: str
    offsets: list[int]
    reply: Reply


LetterAsk = RedriveRequest | PurgeRequest
Replies = list[tuple[Reply, Any]]


class LetterDesk:
    """The dead letters' part of a turn."""

    def __init__(
        self,
        journal: Journal,
        recaller: Recaller,
        dispatcher: Dispatcher,
        counters: Counters,
        *,
        again: Callable[[LetterAsk, NotConfirmed | None], None],
    ) -> None:
        self._journal = journal
        self._recaller = recaller
        self._dispatcher = dispatcher
        self._counters = counters
        self._again = again
        self.asked: list[LetterAsk] = []

    def turn(self, replies: Replies, now: int) -> None:
        asked, self.asked = self.asked, []
        for request in asked:
            answer: list[int] | DriftQError
            try:
                grave = self._grave(request.topic)
                offsets = [one for one in dict.fromkeys(request.offsets) if _is_there(grave, one)]
                if isinstance(request, RedriveRequest):
                    offsets = [one for one in offsets if one not in grave.redriven]
                    claims = [Claim(grave.id, offset) for offset in offsets]
                    cold = self._recaller.cold(claims)
                    if cold:
                        self._recaller.fetch(cold, lambda error, request=request: self._again(request, error))  # type: ignore[misc]
                        continue
                    self._redrive(request, grave, claims, now)
                elif offsets:
                    self._journal.add(LettersPurged(at=now, topic=grave.id, offsets=offsets))
                answer = offsets
            except DriftQError as refused:
                answer = refused
            replies.append((request.reply, answer))

    def _grave(self, name: str) -> Topic:
        grave = self._journal.state.topics.get(DEAD_LETTER_PREFIX + name)
        if grave is None:
            raise TopicNotFound(DEAD_LETTER_PREFIX + name)
        return grave

    def _redrive(self, request: RedriveRequest, grave: Topic, claims: list[Claim], now: int) -> None:
        state = self._journal.state
        origin = state.topics.get(request.topic)
        if origin is None:
            raise TopicNotFound(request.topic)
        if not claims:
            return
        commands: list[Produce] = []
        for claim in claims:
            entry = self._recaller.entry(claim)
            if entry is not None:
                commands.append(
                    self._command(decode_entry(entry), origin, all_groups=request.all_groups, now=now)
                )
        size = sum(len(command.entry) + 64 for command in commands)
        self._journal.keep_together(size + _OVERHEAD_BYTES)
        batch = decide_produce(state, origin, commands, recall=self._recaller.recall, now=now, unlimited=True)
        for record, entries in batch.records:
            self._journal.add_stored(record, entries)
        offsets = [claim.offset for claim in claims]
        self._journal.add(LettersRedriven(at=now, topic=grave.id, offsets=offsets, by=request.by))
        self._dispatcher.stored(origin.name, {command.override or 0 for command in commands})
        self._counters.redriven += len(commands)

    def _command(self, letter: StoredMessage, origin: Topic, *, all_groups: bool, now: int) -> Produce:
        """A new message from a letter: without facts of its death, a past deadline, or a key to claim."""
        envelope = letter.envelope or Envelope()
        facts: DeadLetterFacts | None = envelope.dlq
        policy = terms_of(envelope.retry_policy) if envelope.retry_policy is not None else None
        group = origin.groups.get(facts.group) if facts is not None and not all_groups else None
        terms = policy or Terms()
        if group is not None:
            terms = msgspec.structs.replace(terms, group=group.id)
        deadline = deadline_ms(envelope.deadline) if envelope.deadline else None
        if deadline is not None and deadline <= now:
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
            override=facts.original_partition if facts is not None else None,
            deadline=deadline,
            terms=terms if terms != Terms() else None,
        )


def _is_there(grave: Topic, offset: int) -> bool:
    return offset not in grave.purged and grave.locate(offset) is not None

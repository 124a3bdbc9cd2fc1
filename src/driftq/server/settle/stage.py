"""Settling in the engine's turn: acks, nacks, extensions, closed streams, expired leases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from driftq.core.commands import Ack
from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import (
    decide_acks,
    decide_expiries,
    decide_extend,
    decide_nack,
    decide_release,
    settled,
)
from driftq.core.decide.effects import scope_of
from driftq.core.group import Group
from driftq.core.index import FLAG_KEYED
from driftq.core.keys import MessageRef
from driftq.core.records import SETTLED_BY_ACK
from driftq.core.state import Topic
from driftq.errors import DriftQError, TopicNotFound
from driftq.model import StoredMessage
from driftq.server.deliver.consumers import Consumers
from driftq.server.effects.committed import cold_effects, identity_of, is_committed
from driftq.server.requests import (
    AckRequest,
    ExtendRequest,
    NackRequest,
    ReleaseRequest,
    SingleAckRequest,
)
from driftq.server.settle.dead_letters import DeadLetterWriter
from driftq.server.topics.views import find_topic
from driftq.server.turn import RequestQueue, Turn
from driftq.storage.entry import decode_entry, produced_at

if TYPE_CHECKING:
    from driftq.server.deliver.stage import Timers


AnyAck = SingleAckRequest | AckRequest


class SettleStage(RequestQueue[NackRequest | ExtendRequest | ReleaseRequest]):
    """Decides the acks of a turn together, one record for each group's partition."""

    handles: ClassVar = (AckRequest, SingleAckRequest, NackRequest, ExtendRequest, ReleaseRequest)

    def __init__(
        self,
        consumers: Consumers,
        timers: Timers,
        dead_letters: DeadLetterWriter,
        *,
        jitter: Callable[[], float],
    ) -> None:
        super().__init__()
        self._consumers = consumers
        self._timers = timers
        self._dead_letters = dead_letters
        self._jitter = jitter
        self._acks: list[AnyAck] = []

    @property
    def pending(self) -> bool:
        return bool(self._acks or self.requests)

    @property
    def next_at(self) -> int | None:
        """When the next lease ends or the next retry is due."""
        return self._timers.next_at()

    def submit(self, request: AnyAck | NackRequest | ExtendRequest | ReleaseRequest) -> None:
        if isinstance(request, (SingleAckRequest, AckRequest)):
            self._acks.append(request)
        else:
            self.requests.append(request)

    def reject(self, error: DriftQError) -> None:
        acks, self._acks = self._acks, []
        for request in acks:
            request.reply(error)
        super().reject(error)

    def decide(self, turn: Turn) -> None:
        if self.requests:
            for request in self.take():
                self._decide_one(turn, request)
        if self._acks:
            acks, self._acks = self._acks, []
            self._settle(turn, acks)
        if not turn.quiet:
            self._end_expired(turn)

    # Acks

    def _settle(self, turn: Turn, requests: list[AnyAck]) -> None:
        by_group: dict[tuple[str, str], list[AnyAck]] = {}
        for request in requests:
            by_group.setdefault((request.topic, request.group), []).append(request)
        for (topic_name, group_name), of_group in by_group.items():
            topic = turn.state.topics.get(topic_name)
            if topic is None:
                for request in of_group:
                    turn.reply(request, TopicNotFound(topic_name))
                continue
            acks: list[Ack] = []
            for request in of_group:
                if isinstance(request, SingleAckRequest):
                    acks.append(request.ack)
                else:
                    acks += request.acks
            for owner in dict.fromkeys([ack.owner for ack in acks]):
                self._consumers.heard(topic_name, group_name, owner)
            records, outcomes = decide_acks(topic, topic.groups.get(group_name), acks, now=turn.now)
            for record in records:
                turn.journal.add(record)
                acked = len(record.deltas) // 4
                turn.counters.acked += acked
                self._consumers.wake(topic_name, group_name, record.partition, settled=acked)
            _answer_acks(turn, of_group, outcomes)

    # Nacks, extensions, closed streams

    def _decide_one(self, turn: Turn, request: NackRequest | ExtendRequest | ReleaseRequest) -> None:
        if isinstance(request, ReleaseRequest):
            self._release(turn, request)
            return
        answer: DriftQError | None = None
        try:
            if isinstance(request, ExtendRequest):
                self._extend(turn, request)
            elif not self._nack(turn, request):
                return
        except DriftQError as refused:
            answer = refused
        turn.reply(request, answer)

    def _nack(self, turn: Turn, request: NackRequest) -> bool:
        """False when the message has to be read before it is dead-lettered; the request is queued then."""
        nack = request.nack
        self._consumers.heard(request.topic, request.group, nack.owner)
        if not nack.started:
            self._consumers.returned_unstarted(request.topic, request.group, nack.owner, now=turn.now)
        topic = find_topic(turn.state, request.topic)
        group = topic.groups.get(request.group)
        decided = decide_nack(turn.state, topic, group, nack, now=turn.now, jitter=self._jitter())
        if isinstance(decided, DeadLettered):
            cold = self._dead_letters.cold(turn, [decided])
            if cold:
                turn.requeue_when_read(cold, request)
                return False
            not_stored = self._dead_letters.dead_letter(turn, [decided])
            if not_stored is not None:
                raise not_stored
        else:
            turn.journal.add(decided)
        turn.counters.nacked += 1
        if group is not None:
            self._timers.note(group, nack.partition)
            self._consumers.wake(group.topic, group.name, nack.partition)
        return True

    def _extend(self, turn: Turn, request: ExtendRequest) -> None:
        self._consumers.heard(request.topic, request.group, request.extend.owner)
        topic = find_topic(turn.state, request.topic)
        group = topic.groups.get(request.group)
        record = decide_extend(topic, group, request.extend, now=turn.now)
        turn.journal.add(record)
        if group is not None:
            self._timers.note(group, record.partition)

    def _release(self, turn: Turn, request: ReleaseRequest) -> None:
        """End the deliveries of a consumer that has left. A message that must be read first follows later."""
        topic = turn.state.topics.get(request.topic)
        group = topic.groups.get(request.group) if topic is not None else None
        if topic is None or group is None:
            return
        records, dead = decide_release(
            turn.state, topic, group, request.credit, now=turn.now, jitter=self._jitter
        )
        for record in records:
            turn.journal.add(record)
            self._timers.note(group, record.partition)
            self._consumers.wake(group.topic, group.name, record.partition)
        if not dead:
            return
        cold = self._dead_letters.cold(turn, dead)
        if cold:
            turn.requeue_when_read(cold, request)
        else:
            self._dead_letters.dead_letter(turn, dead)

    # Expired leases

    def _end_expired(self, turn: Turn) -> None:
        """Expired leases and due retries: their groups have messages to deliver again."""
        now = turn.now
        for group, partition in self._timers.pop_due(now):
            if turn.state.groups_by_id.get(group.id) is not group:
                self._dead_letters.forget_group(group, partition)
                continue  # It was deleted meanwhile.
            topic = turn.state.topics[group.topic]
            if not self._settle_committed(turn, topic, group, partition):
                continue
            self._suspect_silent(turn, group, partition)
            record, dead = decide_expiries(turn.state, topic, group, partition, now=now, jitter=self._jitter)
            if record is not None:
                turn.journal.add(record)
                turn.counters.expired += len(record.ended)
            group.partitions[partition].find_due(now)
            self._consumers.wake(group.topic, group.name, partition)
            if self._dead_letters.give_up(turn, dead, group, partition):
                self._timers.note(group, partition)

    def _suspect_silent(self, turn: Turn, group: Group, partition: int) -> None:
        """Hold back streams whose leases expired and whose owners gave no sign of life."""
        leases = group.partitions[partition].leases
        silent = {block.credit for block in leases.expired(turn.now) if block.is_silent}
        if silent:
            turn.counters.stalls += self._consumers.lapsed(group.topic, group.name, silent, now=turn.now)

    def _settle_committed(self, turn: Turn, topic: Topic, group: Group, partition: int) -> bool:
        """Settle expired deliveries whose effect is committed; False when the disk has to be read first."""
        if not turn.state.effects.committed:
            return True
        progress = group.partitions[partition]
        keyed = [
            ordinal
            for block in progress.leases.expired(turn.now)
            for ordinal in progress.leases.leased_by(block)
            if progress.index.place_at(ordinal).flags & FLAG_KEYED
        ]
        refs = [MessageRef(topic.id, progress.index.offset_at(ordinal)) for ordinal in keyed]
        cold = turn.lookup.cold(refs)
        committed: list[int] = []
        if not cold:
            for ordinal, ref in zip(keyed, refs, strict=True):
                entry = turn.lookup.entry(ref)
                if entry is None:
                    continue
                stored = decode_entry(entry)
                identity = identity_of(stored, topic=topic.name, group=group.name)
                if identity is not None:
                    cold += cold_effects(turn, identity)
                    topics = _topics_of_effects(turn, topic, stored, produced=produced_at(entry))
                    if not cold and is_committed(turn, identity, topics):
                        committed.append(ordinal)
        if cold:
            self._timers.set_when_read(turn, cold, group, partition)
            return False
        if committed:
            turn.journal.add(settled(group, partition, committed, cause=SETTLED_BY_ACK, now=turn.now))
            turn.counters.acked += len(committed)
        return True


def _answer_acks(turn: Turn, requests: list[AnyAck], outcomes: list[DriftQError | None]) -> None:
    """Give each request its outcomes; the single ones are answered together where all are settled."""
    singles: list[SingleAckRequest] = []
    if outcomes.count(None) == len(outcomes):
        singles = [request for request in requests if isinstance(request, SingleAckRequest)]
        if singles:
            turn.reply_through(partial(_answer_singles, singles), None)
        if len(singles) == len(requests):
            return
    start = 0
    for request in requests:
        stop = start + (1 if isinstance(request, SingleAckRequest) else len(request.acks))
        if not (singles and isinstance(request, SingleAckRequest)):
            turn.reply(request, outcomes[start:stop])
        start = stop


def _answer_singles(requests: list[SingleAckRequest], failed: DriftQError | None) -> None:
    """The commit is durable, or has failed."""
    if failed is None:
        requests[0].answers.answer_all([request.asked for request in requests])
    else:
        for request in requests:
            request.reply(failed)


def _topics_of_effects(turn: Turn, topic: Topic, stored: StoredMessage, *, produced: int) -> range:
    """The topic ids whose effects count for a message of this topic."""
    if stored.requested_topic is None:
        return range(topic.id, topic.id + 1)
    return scope_of(turn.state, stored.requested_topic, produced_at=produced, now=turn.now).topics

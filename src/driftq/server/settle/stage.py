"""Deciding what one turn has gathered: one record a kind and topic, however many asked."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from driftq.core.commands import Ack
from driftq.core.dead_lettered import DeadLettered
from driftq.core.decide import (
    decide_acks,
    decide_extend,
    decide_group,
    decide_nack,
    decide_reader,
    decide_release,
    decide_topic,
)
from driftq.core.decide.append import OpenedWriter, decide_writer
from driftq.core.state import State, Topic
from driftq.errors import DriftQError, NotConfirmed, TopicNotFound
from driftq.server.counters import Counters
from driftq.server.deliver.consumers import Consumers, Member
from driftq.server.deliver.outbox import Outbox
from driftq.server.deliver.timers import Timers
from driftq.server.lookup import MessageLookup
from driftq.server.ports import ConsumerStream
from driftq.server.requests import (
    AckRequest,
    DeleteGroupRequest,
    DeleteTopicRequest,
    ExtendRequest,
    JoinRequest,
    LeaveRequest,
    NackRequest,
    ReaderRequest,
    ReleaseRequest,
    Reply,
    ResetRequest,
    SeldomRequest,
    TopicRequest,
    WriterRequest,
)
from driftq.server.settle.dead_letters import DeadLettering
from driftq.server.topics.delete import Endings
from driftq.storage.journal import Journal

logger = logging.getLogger("driftq.engine")

Replies = list[tuple[Reply, Any]]


def _not_released(error: NotConfirmed) -> None:
    """A message that was to be given up could not be read: the end of its lease tries again."""
    logger.warning("what a closed stream held could not be given up yet: %s", error)


class Gathering:
    """Turns requests into records and held answers."""

    def __init__(
        self,
        journal: Journal,
        dispatcher: Consumers,
        timers: Timers,
        *,
        counters: Counters,
        letters: DeadLettering,
        lookup: MessageLookup,
        new_outbox: Callable[[ConsumerStream], Outbox],
        draw: Callable[[], float],
        again: Callable[[NackRequest | ReleaseRequest, NotConfirmed | None], None],
    ) -> None:
        self._journal = journal
        self._consumers = dispatcher
        self._timers = timers
        self._counters = counters
        self._letters = letters
        self._lookup = lookup
        self._new_outbox = new_outbox
        self._draw = draw
        self._again = again
        self._endings = Endings(journal, dispatcher)

    @property
    def _state(self) -> State:
        return self._journal.state

    def _topic(self, name: str) -> Topic:
        topic = self._state.topics.get(name)
        if topic is None:
            raise TopicNotFound(name)
        return topic

    # Seldom

    def seldom(self, request: SeldomRequest, replies: Replies, now: int) -> None:
        """Decide one request; its answer is held for the commit."""
        if isinstance(request, LeaveRequest):
            self._leave(request.consumer, now)
            return
        if isinstance(request, ReleaseRequest):
            self._release(request, now)
            return
        answer: DriftQError | None = None
        try:
            match request:
                case TopicRequest():
                    self._create_topic(request, now)
                case ReaderRequest():
                    topic = self._topic(request.topic)
                    self._journal.add(decide_reader(topic, request.reader, offsets=request.offsets, now=now))
                case WriterRequest():
                    replies.append((request.reply, self._open_writer(request, now)))
                    return
                case JoinRequest():
                    self._join(request.consumer, now)
                    replies.append((lambda answer: self._joined(request, answer), None))
                    return
                case DeleteTopicRequest() | DeleteGroupRequest():
                    self._endings.delete(request, replies, now)
                    return
                case ResetRequest():
                    self._endings.reset(request, now)
                case NackRequest():
                    self._heard_nack(request, now)
                    if not self._nack(request, now):
                        return
                case ExtendRequest():
                    self._consumers.heard(request.topic, request.group, request.extend.owner)
                    self._extend(request, now)
        except DriftQError as refused:
            answer = refused
        replies.append((request.reply, answer))

    def _create_topic(self, request: TopicRequest, now: int) -> None:
        record = decide_topic(
            self._state, request.name, partitions=request.partitions, options=request.options, now=now
        )
        if record is not None:
            self._journal.add(record)

    def _open_writer(self, request: WriterRequest, now: int) -> OpenedWriter:
        topic = self._topic(request.topic)
        record = decide_writer(topic, request.writer, epoch=request.epoch, now=now)
        if record is not None:
            self._journal.add(record)
        writer = topic.writers[request.writer]
        return OpenedWriter(writer.epoch, dict(writer.lanes))

    def _join(self, consumer: ConsumerStream, now: int) -> None:
        topic = self._topic(consumer.topic)
        record = decide_group(self._state, topic, consumer.group, latest=consumer.latest, now=now)
        if record is not None:
            self._journal.add(record)
        self._consumers.join(Member(consumer, self._new_outbox(consumer)), partitions=len(topic.partitions))

    def _joined(self, request: JoinRequest, answer: DriftQError | None) -> None:
        """Answer; a consumer that is told "not confirmed" must not be sent anything later."""
        if answer is not None:
            seat = self._consumers.leave(request.consumer)
            if seat is not None:
                seat.outbox.closed = True
        request.reply(answer)

    def _leave(self, consumer: ConsumerStream, now: int) -> None:
        seat = self._consumers.leave(consumer)
        if seat is None:
            return
        seat.outbox.closed = True
        if consumer.release_on_close:
            self._release(ReleaseRequest(consumer.topic, consumer.group, seat.holder, _not_released), now)

    def _release(self, request: ReleaseRequest, now: int) -> None:
        """Give back what a consumer held; what has to be read before it can be given up comes again."""
        topic = self._state.topics.get(request.topic)
        group = topic.groups.get(request.group) if topic is not None else None
        if topic is None or group is None:
            return
        records, casualties = decide_release(
            self._state, topic, group, request.holder, now=now, draw=self._draw
        )
        for record in records:
            self._journal.add(record)
            self._timers.note(group, record.partition)
            self._consumers.wake(group.topic, group.name, record.partition)
        if not casualties:
            return
        cold = self._letters.cold(casualties)
        if cold:
            self._lookup.fetch(cold, lambda error: self._again(request, error))
        else:
            self._letters.bury(casualties, now)

    def _heard_nack(self, request: NackRequest, now: int) -> None:
        """Whatever is decided about it, its owner is alive; and closing, when it did not even start."""
        owner = request.nack.owner
        self._consumers.heard(request.topic, request.group, owner)
        if not request.nack.started:
            self._consumers.gave_back_unstarted(request.topic, request.group, owner, now=now)

    def _nack(self, request: NackRequest, now: int) -> bool:
        """False when the message has to be read before it can be given up; the request comes again then."""
        topic = self._topic(request.topic)
        group = topic.groups.get(request.group)
        decided = decide_nack(self._state, topic, group, request.nack, now=now, draw=self._draw())
        if isinstance(decided, DeadLettered):
            cold = self._letters.cold([decided])
            if cold:
                self._lookup.fetch(cold, lambda error: self._again(request, error))
                return False
            not_stored = self._letters.bury([decided], now)
            if not_stored is not None:
                raise not_stored
        else:
            self._journal.add(decided)
        self._counters.nacked += 1
        if group is not None:
            self._timers.note(group, request.nack.partition)
            self._consumers.wake(group.topic, group.name, request.nack.partition)
        return True

    def _extend(self, request: ExtendRequest, now: int) -> None:
        topic = self._topic(request.topic)
        group = topic.groups.get(request.group)
        record = decide_extend(topic, group, request.extend, now=now)
        self._journal.add(record)
        if group is not None:
            self._timers.note(group, record.partition)

    # Acks

    def acks(self, requests: list[AckRequest], replies: Replies, now: int) -> None:
        lanes: dict[tuple[str, str], list[AckRequest]] = {}
        for request in requests:
            lanes.setdefault((request.topic, request.group), []).append(request)
        for (topic_name, group_name), lane in lanes.items():
            topic = self._state.topics.get(topic_name)
            if topic is None:
                for request in lane:
                    replies.append((request.reply, TopicNotFound(topic_name)))
                continue
            for request in lane:
                if request.acks:
                    self._consumers.heard(topic_name, group_name, request.acks[0].owner)
            acks: list[Ack] = lane[0].acks if len(lane) == 1 else [ack for one in lane for ack in one.acks]
            records, outcomes = decide_acks(topic, topic.groups.get(group_name), acks, now=now)
            for record in records:
                self._journal.add(record)
                self._counters.acked += len(record.deltas) // 4
                self._consumers.wake(topic_name, group_name, record.partition)
            start = 0
            for request in lane:
                stop = start + len(request.acks)
                replies.append((request.reply, outcomes[start:stop]))
                start = stop

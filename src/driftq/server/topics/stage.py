"""Topics and groups in the engine's turn: created, deleted, reset; readers, writers and consumers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from driftq.core.decide import decide_group, decide_reader, decide_topic
from driftq.core.decide.delete import decide_delete_group, decide_delete_topic, decide_reset
from driftq.core.decide.owners import decide_first_use, decide_owner
from driftq.core.decide.positions import OpenedWriter, decide_writer
from driftq.errors import DriftQError, NotConfirmed
from driftq.server.deliver.consumers import Consumers, Member, Members
from driftq.server.deliver.outbox import Outbox
from driftq.server.ports import ConsumerStream
from driftq.server.requests import (
    DeleteGroupRequest,
    DeleteTopicRequest,
    JoinRequest,
    LeaveRequest,
    OwnRequest,
    ReaderRequest,
    ReleaseRequest,
    Reply,
    ResetRequest,
    TopicRequest,
    WriterRequest,
)
from driftq.server.topics.views import find_topic
from driftq.server.turn import RequestQueue, Turn

logger = logging.getLogger("driftq.engine")

TopicsRequest = (
    TopicRequest
    | OwnRequest
    | ReaderRequest
    | WriterRequest
    | DeleteTopicRequest
    | DeleteGroupRequest
    | ResetRequest
    | JoinRequest
    | LeaveRequest
)


class TopicsStage(RequestQueue[TopicsRequest]):
    """Decides one request after the other, in the order of their submission."""

    handles: ClassVar = (
        TopicRequest,
        OwnRequest,
        ReaderRequest,
        WriterRequest,
        DeleteTopicRequest,
        DeleteGroupRequest,
        ResetRequest,
        JoinRequest,
        LeaveRequest,
    )

    def __init__(self, consumers: Consumers, *, new_outbox: Callable[[ConsumerStream], Outbox]) -> None:
        super().__init__()
        self._consumers = consumers
        self._new_outbox = new_outbox

    def decide(self, turn: Turn) -> None:
        if self.requests:
            for request in self.take():
                try:
                    self._decide_one(turn, request)
                except DriftQError as refused:
                    turn.reply(request, refused)

    def _decide_one(self, turn: Turn, request: TopicsRequest) -> None:
        match request:
            case TopicRequest():
                self._create_topic(turn, request)
            case OwnRequest():
                self._own(turn, request)
            case ReaderRequest():
                self._move_reader(turn, request)
            case WriterRequest():
                self._open_writer(turn, request)
            case DeleteTopicRequest() | DeleteGroupRequest():
                self._delete(turn, request)
            case ResetRequest():
                self._reset(turn, request)
            case JoinRequest():
                self._join(turn, request)
            case LeaveRequest():
                self._leave(turn, request.consumer)

    def _create_topic(self, turn: Turn, request: TopicRequest) -> None:
        record = decide_topic(
            turn.state,
            request.name,
            partitions=request.partitions,
            options=request.options,
            now=turn.now,
            tenant=request.tenant,
            alone=request.alone,
        )
        if record is not None:
            turn.journal.add(record)
        turn.reply(request, None)

    def _own(self, turn: Turn, request: OwnRequest) -> None:
        state, tenant, now = turn.state, request.tenant, turn.now
        if request.given:
            decided = [decide_owner(state, thing, tenant=tenant, now=now) for thing in request.things]
            records = [record for record in decided if record is not None]
        else:
            records = decide_first_use(state, request.things, tenant=tenant, now=now)
        for record in records:
            turn.journal.add(record)
        turn.reply(request, None)

    def _move_reader(self, turn: Turn, request: ReaderRequest) -> None:
        topic = find_topic(turn.state, request.topic)
        turn.journal.add(decide_reader(topic, request.reader, offsets=request.offsets, now=turn.now))
        turn.reply(request, None)

    def _open_writer(self, turn: Turn, request: WriterRequest) -> None:
        topic = find_topic(turn.state, request.topic)
        record = decide_writer(topic, request.writer, epoch=request.epoch, now=turn.now)
        if record is not None:
            turn.journal.add(record)
        writer = topic.writers[request.writer]
        turn.reply(request, OpenedWriter(writer.epoch, dict(writer.lanes)))

    # Delete and reset

    def _delete(self, turn: Turn, request: DeleteTopicRequest | DeleteGroupRequest) -> None:
        topic = find_topic(turn.state, request.topic)
        if isinstance(request, DeleteTopicRequest):
            turn.journal.add(decide_delete_topic(topic, now=turn.now))
            groups = self._consumers.find(request.topic)
        else:
            turn.journal.add(decide_delete_group(topic, request.group, now=turn.now))
            groups = self._consumers.find(request.topic, request.group)
        turn.reply_through(partial(self._deleted, groups, request.reply), None)

    def _deleted(self, groups: list[Members], reply: Reply, answer: DriftQError | None) -> None:
        """Streams end only when the deletion is durable."""
        if answer is None:
            for members in groups:
                for member in list(members.members):
                    self._consumers.leave(member.consumer)
                    member.outbox.closed = True
                    member.consumer.end()
        reply(answer)

    def _reset(self, turn: Turn, request: ResetRequest) -> None:
        topic = find_topic(turn.state, request.topic)
        turn.journal.add(decide_reset(topic, request.group, to=request.to, now=turn.now))
        self._consumers.was_reset(request.topic, request.group, partitions=len(topic.partitions))
        turn.reply(request, None)

    # Consumers

    def _join(self, turn: Turn, request: JoinRequest) -> None:
        """The first consumer of a group creates it."""
        consumer = request.consumer
        topic = find_topic(turn.state, consumer.topic)
        record = decide_group(turn.state, topic, consumer.group, latest=consumer.latest, now=turn.now)
        if record is not None:
            turn.journal.add(record)
        self._consumers.join(Member(consumer, self._new_outbox(consumer)), partitions=len(topic.partitions))
        turn.reply_through(partial(self._joined, request), None)

    def _joined(self, request: JoinRequest, answer: DriftQError | None) -> None:
        """A consumer whose join is not confirmed must not get any messages later."""
        if answer is not None:
            member = self._consumers.leave(request.consumer)
            if member is not None:
                member.outbox.closed = True
        request.reply(answer)

    def _leave(self, turn: Turn, consumer: ConsumerStream) -> None:
        """The settle stage releases its deliveries, after the nacks that came before."""
        member = self._consumers.leave(consumer)
        if member is None:
            return
        member.outbox.closed = True
        if consumer.release_on_close:
            turn.submit(ReleaseRequest(consumer.topic, consumer.group, member.credit, _not_released))


def _not_released(error: NotConfirmed) -> None:
    """A message that had to be dead-lettered could not be read: the end of its lease is the next try."""
    logger.warning("the deliveries of a closed stream could not be dead-lettered yet: %s", error)

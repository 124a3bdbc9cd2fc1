"""Topics and groups end or begin anew, and with them the streams that read them."""

from __future__ import annotations

from typing import Any

from driftq.core.decide.delete import decide_delete_group, decide_delete_topic, decide_reset
from driftq.core.state import Topic
from driftq.errors import DriftQError, TopicNotFound
from driftq.server.deliver.consumers import Consumers, Members
from driftq.server.requests import DeleteGroupRequest, DeleteTopicRequest, Reply, ResetRequest
from driftq.storage.journal import Journal


class Endings:
    """Decides them; streams are ended when the commit is durable."""

    def __init__(self, journal: Journal, dispatcher: Consumers) -> None:
        self._journal = journal
        self._consumers = dispatcher

    def delete(
        self, request: DeleteTopicRequest | DeleteGroupRequest, replies: list[tuple[Reply, Any]], now: int
    ) -> None:
        topic = self._topic(request.topic)
        if isinstance(request, DeleteTopicRequest):
            self._journal.add(decide_delete_topic(topic, now=now))
            rings = self._consumers.rings_of(request.topic)
        else:
            self._journal.add(decide_delete_group(topic, request.group, now=now))
            rings = self._consumers.rings_of(request.topic, request.group)
        replies.append((lambda answer: self._deleted(rings, request.reply, answer), None))

    def reset(self, request: ResetRequest, now: int) -> None:
        topic = self._topic(request.topic)
        self._journal.add(decide_reset(topic, request.group, to=request.to, now=now))
        self._consumers.begin_anew(request.topic, request.group, partitions=len(topic.partitions))

    def _deleted(self, rings: list[Members], reply: Reply, answer: DriftQError | None) -> None:
        if answer is None:
            for ring in rings:
                for seat in list(ring.seats):
                    self._consumers.leave(seat.consumer)
                    seat.outbox.closed = True
                    seat.consumer.end()
        reply(answer)

    def _topic(self, name: str) -> Topic:
        topic = self._journal.state.topics.get(name)
        if topic is None:
            raise TopicNotFound(name)
        return topic

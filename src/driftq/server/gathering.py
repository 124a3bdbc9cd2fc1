"""Deciding what one turn has gathered: one record a kind and topic, however many asked."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from driftq.core.commands import Ack, Produce
from driftq.core.decide import (
    Duplicate,
    Recall,
    decide_acks,
    decide_extend,
    decide_group,
    decide_nack,
    decide_produce,
    decide_reader,
    decide_release,
    decide_topic,
)
from driftq.core.decide.produce import Batch, Claimed, Outcome
from driftq.core.records import MessagesStored
from driftq.core.state import State, Topic
from driftq.errors import DriftQError, InvalidArgument, PayloadTooLarge, TopicNotFound
from driftq.log.frame import MAX_PAYLOAD
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.counters import Counters
from driftq.server.dispatcher import Dispatcher, Seat
from driftq.server.journal import Journal
from driftq.server.outbox import Outbox
from driftq.server.ports import Consumer
from driftq.server.requests import (
    AckRequest,
    ExtendRequest,
    JoinRequest,
    LeaveRequest,
    NackRequest,
    ProduceRequest,
    ReaderRequest,
    Reply,
    SeldomRequest,
    TopicRequest,
)
from driftq.server.timers import Timers

logger = logging.getLogger("driftq.engine")

Replies = list[tuple[Reply, Any]]


class Gathering:
    """Turns requests into records and held answers."""

    def __init__(
        self,
        journal: Journal,
        dispatcher: Dispatcher,
        timers: Timers,
        *,
        counters: Counters,
        new_outbox: Callable[[Consumer], Outbox],
    ) -> None:
        self._journal = journal
        self._dispatcher = dispatcher
        self._timers = timers
        self._counters = counters
        self._new_outbox = new_outbox

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
        answer: DriftQError | None = None
        try:
            match request:
                case TopicRequest():
                    self._create_topic(request, now)
                case ReaderRequest():
                    topic = self._topic(request.topic)
                    self._journal.add(decide_reader(topic, request.reader, offsets=request.offsets, now=now))
                case JoinRequest():
                    self._join(request.consumer, now)
                    replies.append((lambda answer: self._joined(request, answer), None))
                    return
                case NackRequest():
                    self._nack(request, now)
                case ExtendRequest():
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

    def _join(self, consumer: Consumer, now: int) -> None:
        topic = self._topic(consumer.topic)
        record = decide_group(self._state, topic, consumer.group, latest=consumer.latest, now=now)
        if record is not None:
            self._journal.add(record)
        self._dispatcher.join(Seat(consumer, self._new_outbox(consumer)), partitions=len(topic.partitions))

    def _joined(self, request: JoinRequest, answer: DriftQError | None) -> None:
        """Answer; a consumer that is told "not confirmed" must not be sent anything later."""
        if answer is not None:
            seat = self._dispatcher.leave(request.consumer)
            if seat is not None:
                seat.outbox.closed = True
        request.reply(answer)

    def _leave(self, consumer: Consumer, now: int) -> None:
        seat = self._dispatcher.leave(consumer)
        if seat is None:
            return
        seat.outbox.closed = True
        group = self._state.find_group(consumer.topic, consumer.group)
        if consumer.release_on_close and group is not None:
            for record in decide_release(group, seat.holder, now=now):
                self._journal.add(record)
                self._timers.note(group, record.partition)
                self._dispatcher.wake(group.topic, group.name, record.partition)

    def _nack(self, request: NackRequest, now: int) -> None:
        topic = self._topic(request.topic)
        group = topic.groups.get(request.group)
        record = decide_nack(topic, group, request.nack, now=now)
        self._journal.add(record)
        self._counters.nacked += 1
        if group is not None:
            self._timers.note(group, record.partition)
            self._dispatcher.wake(group.topic, group.name, record.partition)

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
            acks: list[Ack] = lane[0].acks if len(lane) == 1 else [ack for one in lane for ack in one.acks]
            records, outcomes = decide_acks(topic, topic.groups.get(group_name), acks, now=now)
            for record in records:
                self._journal.add(record)
                self._counters.acked += len(record.deltas) // 4
                self._dispatcher.wake(topic_name, group_name, record.partition)
            start = 0
            for request in lane:
                stop = start + len(request.acks)
                replies.append((request.reply, outcomes[start:stop]))
                start = stop

    # Produces

    def produces(self, requests: list[ProduceRequest], replies: Replies, now: int, *, recall: Recall) -> None:
        lanes: dict[str, tuple[list[Produce], list[tuple[ProduceRequest, int]]]] = {}
        for request in requests:
            if request.atomic:
                continue
            request.outcomes = [None] * len(request.commands)  # type: ignore[list-item]
            for slot, command in enumerate(request.commands):
                lane = lanes.get(command.topic)
                if lane is None:
                    lane = lanes[command.topic] = ([], [])
                lane[0].append(command)
                lane[1].append((request, slot))
        for name, (commands, askers) in lanes.items():
            outcomes = self._store(name, commands, now, recall)
            for (request, slot), outcome in zip(askers, outcomes, strict=True):
                request.outcomes[slot] = outcome
        for request in requests:
            if request.atomic:
                self._store_atomic(request, now, recall)
            replies.append((request.reply, request.outcomes))

    def _store(self, name: str, commands: list[Produce], now: int, recall: Recall) -> list[Outcome]:
        topic = self._state.topics.get(name)
        if topic is None or name.startswith(DEAD_LETTER_PREFIX):
            self._counters.produce_refused += len(commands)
            return [_no_target(name)] * len(commands)
        batch = decide_produce(self._state, topic, commands, recall=recall, now=now)
        self._keep(topic, batch)
        return batch.outcomes

    def _keep(self, topic: Topic, batch: Batch) -> None:
        stored = 0
        for record, entries in batch.records:
            self._journal.add_stored(record, entries)
            self._dispatcher.stored(topic.name, _partitions(record, topic))
            stored += len(entries)
        self._counters.produced += stored
        if stored < len(batch.outcomes):
            self._count_others(batch.outcomes)

    def _count_others(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            if isinstance(outcome, Duplicate):
                self._counters.duplicates += 1
                if outcome.payload_mismatch:
                    self._counters.payload_mismatches += 1
                    logger.warning(
                        "an idempotency key came again with another payload; offset %d was kept",
                        outcome.offset,
                    )
            elif isinstance(outcome, DriftQError):
                self._counters.produce_refused += 1

    def _store_atomic(self, request: ProduceRequest, now: int, recall: Recall) -> None:
        """All or nothing: every topic's part is decided before any of it is kept."""
        slots: dict[str, list[int]] = {}
        for slot, command in enumerate(request.commands):
            slots.setdefault(command.topic, []).append(slot)
        request.outcomes = [_no_target(command.topic) for command in request.commands]
        batches: list[tuple[Topic, Batch]] = []
        claimed: Claimed = {}  # One key may come twice, for two topics.
        for name, mine in slots.items():
            topic = self._state.topics.get(name)
            if topic is None or name.startswith(DEAD_LETTER_PREFIX):
                continue
            commands = [request.commands[slot] for slot in mine]
            batch = decide_produce(self._state, topic, commands, recall=recall, now=now, claimed=claimed)
            batches.append((topic, batch))
            for slot, outcome in zip(mine, batch.outcomes, strict=True):
                request.outcomes[slot] = outcome
        refused = any(isinstance(outcome, DriftQError) for outcome in request.outcomes)
        if not refused and not request.doomed:
            size = sum(_frame_bytes(batch) for _, batch in batches)
            if size > MAX_PAYLOAD:
                request.outcomes = [PayloadTooLarge(limit_bytes=MAX_PAYLOAD)] * len(request.commands)
                return
            if size:
                self._journal.keep_together(size)
            for topic, batch in batches:
                self._keep(topic, batch)


def _no_target(name: str) -> DriftQError:
    if name.startswith(DEAD_LETTER_PREFIX):
        return InvalidArgument("topic", "dead letters are written by the server alone")
    return TopicNotFound(name)


def _frame_bytes(batch: Batch) -> int:
    """At least what the records of a batch take up in a frame: 19 bytes a message besides its stored form."""
    return sum(256 + sum(len(entry) + 24 for entry in entries) for _, entries in batch.records)


def _partitions(record: MessagesStored, topic: Topic) -> set[int] | range:
    if record.partition >= 0:
        return range(record.partition, record.partition + 1)
    return set(memoryview(record.partitions).cast("H"))

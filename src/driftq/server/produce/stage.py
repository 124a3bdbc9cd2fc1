"""Deciding the produces of a turn: one record a topic, however many asked."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from driftq.core.commands import Produce
from driftq.core.decide import Duplicate, Recall, decide_produce
from driftq.core.decide.append import AppendedMessages, decide_append
from driftq.core.decide.produce import Claimed, Outcome, ProduceBatch
from driftq.core.records import MessagesStored
from driftq.core.state import State, Topic
from driftq.errors import DriftQError, InvalidArgument, PayloadTooLarge, TopicNotFound
from driftq.log.frame import MAX_PAYLOAD
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.counters import Counters
from driftq.server.deliver.consumers import Consumers
from driftq.server.requests import AppendRequest, ProduceRequest, Reply
from driftq.storage.journal import Journal

logger = logging.getLogger("driftq.engine")

Replies = list[tuple[Reply, Any]]

_MOVE_BYTES = 2_048
"""More than the record of a lane's move takes: a writer's name has at most 255 characters."""


class Producing:
    """Turns produce requests into records and held answers."""

    def __init__(self, journal: Journal, dispatcher: Consumers, counters: Counters) -> None:
        self._journal = journal
        self._consumers = dispatcher
        self._counters = counters

    @property
    def _state(self) -> State:
        return self._journal.state

    def produces(
        self,
        requests: Sequence[ProduceRequest],
        replies: Replies,
        now: int,
        *,
        wall: int,
        recall: Recall,
        new_keys: bool = False,
    ) -> None:
        """`new_keys`: it is known that no key among them was there before or comes twice."""
        lanes: dict[str, _TopicQueue] = {}
        for request in requests:
            if not request.atomic:
                _line_up(request, lanes)
        for name, lane in lanes.items():
            lane.tell(self._store(name, lane.commands, now, wall, recall, new_keys=new_keys))
        for request in requests:
            if isinstance(request, AppendRequest):
                replies.append((request.reply, self._append(request, now, wall, recall)))
                continue
            if request.atomic:
                self._store_atomic(request, now, wall, recall)
            replies.append((request.reply, request.outcomes))

    def _store(
        self, name: str, commands: list[Produce], now: int, wall: int, recall: Recall, *, new_keys: bool
    ) -> list[Outcome]:
        topic = self._state.topics.get(name)
        if topic is None or name.startswith(DEAD_LETTER_PREFIX):
            self._counters.produce_refused += len(commands)
            return [_no_target(name)] * len(commands)
        batch = decide_produce(
            self._state, topic, commands, recall=recall, now=now, wall=wall, new_keys=new_keys
        )
        self._keep(topic, batch)
        return batch.outcomes

    def _keep(self, topic: Topic, batch: ProduceBatch) -> None:
        stored = 0
        for record, entries in batch.records:
            self._journal.add_stored(record, entries)
            self._consumers.stored(topic.name, _partitions(record, topic))
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

    def _store_atomic(self, request: ProduceRequest, now: int, wall: int, recall: Recall) -> None:
        """All or nothing: every topic's part is decided before any of it is kept."""
        slots: dict[str, list[int]] = {}
        for slot, command in enumerate(request.commands):
            slots.setdefault(command.topic, []).append(slot)
        request.outcomes = [_no_target(command.topic) for command in request.commands]
        batches: list[tuple[Topic, ProduceBatch]] = []
        claimed: Claimed = {}  # One key may come twice, for two topics.
        for name, mine in slots.items():
            topic = self._state.topics.get(name)
            if topic is None or name.startswith(DEAD_LETTER_PREFIX):
                continue
            commands = [request.commands[slot] for slot in mine]
            batch = decide_produce(
                self._state, topic, commands, recall=recall, now=now, wall=wall, claimed=claimed
            )
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

    def _append(
        self, request: AppendRequest, now: int, wall: int, recall: Recall
    ) -> AppendedMessages | DriftQError:
        """The new messages of a lane and its position, in one frame; or an error, and nothing is stored."""
        command = request.append
        topic = self._state.topics.get(command.topic)
        if topic is None or command.topic.startswith(DEAD_LETTER_PREFIX):
            return _no_target(command.topic)
        try:
            decided = decide_append(self._state, topic, command, recall=recall, now=now, wall=wall)
        except DriftQError as refused:
            self._counters.produce_refused += len(command.messages)
            return refused
        self._counters.duplicates += decided.answer.skipped
        if decided.moved is None:
            return decided.answer
        size = _frame_bytes(decided.batch) + _MOVE_BYTES
        if size > MAX_PAYLOAD:
            return PayloadTooLarge(limit_bytes=MAX_PAYLOAD)
        self._journal.keep_together(size)
        self._keep(topic, decided.batch)
        self._journal.add(decided.moved)
        return decided.answer


class _TopicQueue:
    """What one topic is to get in this turn, and who asked for it."""

    __slots__ = ("_askers", "commands")

    def __init__(self) -> None:
        self.commands: list[Produce] = []
        self._askers: list[tuple[ProduceRequest, int | None]] = []
        """Each with the place of its message among its own, or None for all of them."""

    def add(self, request: ProduceRequest, slot: int) -> None:
        self.commands.append(request.commands[slot])
        self._askers.append((request, slot))

    def add_all(self, request: ProduceRequest) -> None:
        self.commands += request.commands
        self._askers.append((request, None))

    def tell(self, outcomes: list[Outcome]) -> None:
        """Give each asker what became of its messages."""
        start = 0
        for request, slot in self._askers:
            if slot is None:
                stop = start + len(request.commands)
                request.outcomes = outcomes[start:stop]
                start = stop
            else:
                request.outcomes[slot] = outcomes[start]
                start += 1


def _line_up(request: ProduceRequest, lanes: dict[str, _TopicQueue]) -> None:
    """Put the messages of a request into the lanes of their topics: most often all into one."""
    commands = request.commands
    topics = [command.topic for command in commands]
    if topics.count(topics[0]) == len(topics):
        _lane(lanes, topics[0]).add_all(request)
        return
    request.outcomes = [None] * len(commands)  # type: ignore[list-item]
    for slot, topic in enumerate(topics):
        _lane(lanes, topic).add(request, slot)


def _lane(lanes: dict[str, _TopicQueue], topic: str) -> _TopicQueue:
    lane = lanes.get(topic)
    if lane is None:
        lane = lanes[topic] = _TopicQueue()
    return lane


def _no_target(name: str) -> DriftQError:
    if name.startswith(DEAD_LETTER_PREFIX):
        return InvalidArgument("topic", "dead letters are written by the server alone")
    return TopicNotFound(name)


def _frame_bytes(batch: ProduceBatch) -> int:
    """At least what the records of a batch take up in a frame: 19 bytes a message besides its stored form."""
    return sum(256 + sum(len(entry) + 24 for entry in entries) for _, entries in batch.records)


def _partitions(record: MessagesStored, topic: Topic) -> set[int] | range:
    if record.partition >= 0:
        return range(record.partition, record.partition + 1)
    return set(memoryview(record.partitions).cast("H"))

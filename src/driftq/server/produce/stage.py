"""Producing in the engine's turn: one record a topic, however many requests there are.

A turn takes as many requests as make one commit of a bounded size. A request whose idempotency keys have to
be compared with messages that are not in memory waits for them and takes part in a later turn.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import ClassVar

from driftq.core.commands import Produce
from driftq.core.decide import Duplicate, decide_produce
from driftq.core.decide.new_messages import NewRun
from driftq.core.decide.positions import AppendedMessages, decide_append
from driftq.core.decide.produce import Outcome, PlacedKeys, ProduceBatch
from driftq.core.records import MessagesStored
from driftq.core.state import Topic
from driftq.errors import (
    DriftQError,
    InvalidArgument,
    PayloadTooLarge,
    TopicNotFound,
)
from driftq.log.frame import MAX_PAYLOAD
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.server.deliver.consumers import Consumers
from driftq.server.histograms import stopwatch
from driftq.server.maintenance.stage import MaintenanceStage
from driftq.server.produce.prepare import prepare_simple
from driftq.server.produce.simple import store_simple
from driftq.server.requests import AppendRequest, ManyRequest, ProduceRequest, SimpleRequest, SingleRequest
from driftq.server.turn import RequestQueue, Turn
from driftq.telemetry.log_context import ids

logger = logging.getLogger("driftq.engine")

COMMIT_BYTES_MAX = 8 << 20
COMMIT_MESSAGES_MAX = 2_000
"""The most that one turn stores: other requests wait meanwhile, and the disk waits for the next turn."""

_LANE_MOVED_BYTES = 2_048
"""An upper bound for the record of a lane's position: a writer's name has at most 255 characters."""


class ProduceStage(RequestQueue[ProduceRequest | SimpleRequest]):
    """Stores messages, or refuses them while the disk is full."""

    handles: ClassVar = (ProduceRequest, AppendRequest, SingleRequest, ManyRequest)

    def __init__(self, consumers: Consumers, maintenance: MaintenanceStage) -> None:
        super().__init__()
        self._consumers = consumers
        self._maintenance = maintenance
        self._since = 0.0
        """When the oldest request in the queue was submitted, for the histogram of produce times."""
        self._messages = self._bytes = 0
        """In the queue."""

    def submit(self, request: ProduceRequest | SimpleRequest) -> None:
        disk_full = self._maintenance.disk_full
        if disk_full is None:
            if not self.requests:
                self._since = stopwatch()
            self.requests.append(request)
            if type(request) is SingleRequest:
                self._messages += 1
                self._bytes += request.size_bytes
            else:
                messages, size_bytes = _size_of(request)
                self._messages += messages
                self._bytes += size_bytes
        else:
            request.reply(disk_full)

    def decide(self, turn: Turn) -> None:
        turn.state.keys.expire(turn.now)
        if self.requests:
            taken = self._take_some()
            answered = len(taken)
            if not store_simple(turn, taken, self):
                requests, new_keys = self._ready(turn, _prepared(turn, taken))
                answered = len(requests)
                self._store_all(turn, requests, new_keys=new_keys)
            turn.commit.produce_requests, turn.commit.produce_since = answered, self._since

    # Which requests this turn decides

    def take(self) -> list[ProduceRequest | SimpleRequest]:
        self._messages = self._bytes = 0
        return super().take()

    def _take_some(self) -> list[ProduceRequest | SimpleRequest]:
        """As many as make one commit of a bounded size."""
        if self._messages < COMMIT_MESSAGES_MAX and self._bytes <= COMMIT_BYTES_MAX:
            return self.take()
        size = messages = 0
        for count, request in enumerate(self.requests, start=1):
            more, more_bytes = _size_of(request)
            messages += more
            size += more_bytes
            if size > COMMIT_BYTES_MAX or messages >= COMMIT_MESSAGES_MAX:
                taken = self.requests[:count]
                del self.requests[:count]
                self._messages -= messages
                self._bytes -= size
                return taken
        return self.take()

    def _ready(self, turn: Turn, requests: list[ProduceRequest]) -> tuple[Sequence[ProduceRequest], bool]:
        """The requests to decide; the others are queued until their reads are done.

        Also whether all their keys are certainly new: neither in the table nor twice among them.
        """
        prints = [
            command.fingerprint for request in requests for command in request.commands if command.fingerprint
        ]
        if not prints:
            return requests, True
        if turn.state.keys.has_none(prints):
            return requests, len(set(prints)) == len(prints)
        return [request for request in requests if self._is_ready(turn, request)], False

    def _is_ready(self, turn: Turn, request: ProduceRequest) -> bool:
        """Whether everything its keys may be compared with is in memory; if not, the reads begin."""
        keys = turn.state.keys
        cold = turn.lookup.cold(
            ref
            for command in request.commands
            if command.fingerprint
            for ref in keys.find(command.fingerprint)
        )
        if cold:
            turn.requeue_when_read(cold, request)
        return not cold

    # Storing

    def _store_all(self, turn: Turn, requests: Sequence[ProduceRequest], *, new_keys: bool) -> None:
        """`new_keys`: no key among them is stored already or occurs twice."""
        batches: dict[str, _TopicBatch] = {}
        for request in requests:
            if not request.atomic:
                _sort_by_topic(request, batches)
        for name, batch in batches.items():
            batch.set_outcomes(self._store(turn, name, batch.commands, new_keys=new_keys))
        for request in requests:
            if isinstance(request, AppendRequest):
                turn.reply(request, self._append(turn, request))
                continue
            if request.atomic:
                self._store_atomic(turn, request)
            turn.reply(request, request.outcomes)

    def _store(self, turn: Turn, name: str, commands: list[Produce], *, new_keys: bool) -> list[Outcome]:
        topic = turn.state.topics.get(name)
        if topic is None or name.startswith(DEAD_LETTER_PREFIX):
            turn.counters.produce_refused += len(commands)
            return [_no_target(name)] * len(commands)
        batch = decide_produce(
            turn.state,
            topic,
            commands,
            lookup=turn.lookup.message,
            now=turn.now,
            wall=turn.wall,
            new_keys=new_keys,
        )
        self._add(turn, topic, batch)
        return batch.outcomes

    def _add(self, turn: Turn, topic: Topic, batch: ProduceBatch) -> None:
        stored = self._add_records(turn, topic, batch.records)
        if stored < len(batch.outcomes):
            _count_others(turn, batch.outcomes)

    def add_run(self, turn: Turn, topic: Topic, run: NewRun) -> None:
        """Write what was decided of simple messages."""
        self._add_records(turn, topic, run.records)

    def store_one_by_one(self, turn: Turn, requests: Sequence[SimpleRequest]) -> None:
        """Judge each message alone; their keys are new."""
        self._store_all(turn, _prepared(turn, requests), new_keys=True)

    def _add_records(
        self, turn: Turn, topic: Topic, records: Sequence[tuple[MessagesStored, list[bytes]]]
    ) -> int:
        stored = 0
        for record, entries in records:
            turn.journal.add_stored(record, entries)
            if topic.name in self._consumers.by_topic:
                self._consumers.stored(topic.name, _partitions(record, topic))
            stored += len(entries)
        turn.counters.produced += stored
        return stored

    def _store_atomic(self, turn: Turn, request: ProduceRequest) -> None:
        """All or nothing: every topic's part is decided before any of it is stored."""
        slots: dict[str, list[int]] = {}
        for slot, command in enumerate(request.commands):
            slots.setdefault(command.topic, []).append(slot)
        request.outcomes = [_no_target(command.topic) for command in request.commands]
        batches: list[tuple[Topic, ProduceBatch]] = []
        placed_keys: PlacedKeys = {}  # One key may occur twice, for two topics.
        for name, slots_of_topic in slots.items():
            topic = turn.state.topics.get(name)
            if topic is None or name.startswith(DEAD_LETTER_PREFIX):
                continue
            batch = decide_produce(
                turn.state,
                topic,
                [request.commands[slot] for slot in slots_of_topic],
                lookup=turn.lookup.message,
                now=turn.now,
                wall=turn.wall,
                placed_keys=placed_keys,
            )
            batches.append((topic, batch))
            for slot, outcome in zip(slots_of_topic, batch.outcomes, strict=True):
                request.outcomes[slot] = outcome
        refused = any(isinstance(outcome, DriftQError) for outcome in request.outcomes)
        if not refused and not request.doomed:
            size = sum(_frame_bytes(batch) for _, batch in batches)
            if size > MAX_PAYLOAD:
                request.outcomes = [PayloadTooLarge(limit_bytes=MAX_PAYLOAD)] * len(request.commands)
                return
            if size:
                turn.journal.keep_together(size)
            for topic, batch in batches:
                self._add(turn, topic, batch)

    def _append(self, turn: Turn, request: AppendRequest) -> AppendedMessages | DriftQError:
        """The new messages of a lane and its position, in one frame; or an error, and nothing is stored."""
        command = request.append
        topic = turn.state.topics.get(command.topic)
        if topic is None or command.topic.startswith(DEAD_LETTER_PREFIX):
            return _no_target(command.topic)
        try:
            decided = decide_append(
                turn.state, topic, command, lookup=turn.lookup.message, now=turn.now, wall=turn.wall
            )
        except DriftQError as refused:
            turn.counters.produce_refused += len(command.messages)
            return refused
        turn.counters.duplicates += decided.answer.skipped
        if decided.moved is None:
            return decided.answer
        size = _frame_bytes(decided.batch) + _LANE_MOVED_BYTES
        if size > MAX_PAYLOAD:
            return PayloadTooLarge(limit_bytes=MAX_PAYLOAD)
        turn.journal.keep_together(size)
        self._add(turn, topic, decided.batch)
        turn.journal.add(decided.moved)
        return decided.answer


def _size_of(request: ProduceRequest | SimpleRequest) -> tuple[int, int]:
    """Messages and bytes."""
    if isinstance(request, SingleRequest):
        return 1, request.size_bytes
    if isinstance(request, ManyRequest):
        return len(request.messages), request.size_bytes
    commands = request.commands
    return len(commands), sum([len(command.entry) for command in commands])


def _prepared(turn: Turn, requests: Sequence[ProduceRequest | SimpleRequest]) -> list[ProduceRequest]:
    """Simple requests as the other kind: they have such neighbours, or need a closer look."""
    prepared: list[ProduceRequest] = []
    for request in requests:
        if isinstance(request, ProduceRequest):
            prepared.append(request)
        else:
            messages = request.messages if isinstance(request, ManyRequest) else (request.message,)
            prepared.append(ProduceRequest(prepare_simple(messages, at=turn.now), request.reply))
    return prepared


class _TopicBatch:
    """One topic's messages in this turn, and their requests."""

    __slots__ = ("_requests", "commands")

    def __init__(self) -> None:
        self.commands: list[Produce] = []
        self._requests: list[tuple[ProduceRequest, int | None]] = []
        """Each with the slot of its message among its own, or None for all of them."""

    def add(self, request: ProduceRequest, slot: int) -> None:
        self.commands.append(request.commands[slot])
        self._requests.append((request, slot))

    def add_all(self, request: ProduceRequest) -> None:
        self.commands += request.commands
        self._requests.append((request, None))

    def set_outcomes(self, outcomes: list[Outcome]) -> None:
        """Give each request the outcomes of its messages."""
        start = 0
        for request, slot in self._requests:
            if slot is None:
                stop = start + len(request.commands)
                request.outcomes = outcomes[start:stop]
                start = stop
            else:
                request.outcomes[slot] = outcomes[start]
                start += 1


def _sort_by_topic(request: ProduceRequest, batches: dict[str, _TopicBatch]) -> None:
    """Put the messages of a request into the batches of their topics: most often all into one."""
    commands = request.commands
    topics = [command.topic for command in commands]
    if topics.count(topics[0]) == len(topics):
        _batch_for(topics[0], batches).add_all(request)
        return
    request.outcomes = [None] * len(commands)  # type: ignore[list-item]
    for slot, topic in enumerate(topics):
        _batch_for(topic, batches).add(request, slot)


def _batch_for(topic: str, batches: dict[str, _TopicBatch]) -> _TopicBatch:
    batch = batches.get(topic)
    if batch is None:
        batch = batches[topic] = _TopicBatch()
    return batch


def _count_others(turn: Turn, outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, Duplicate):
            turn.counters.duplicates += 1
            if outcome.payload_mismatch:
                turn.counters.payload_mismatches += 1
                logger.warning(
                    "an idempotency key was reused with another payload; offset %d is unchanged",
                    outcome.offset,
                    extra=ids(topic=outcome.topic, partition=outcome.partition, offset=outcome.offset),
                )
        elif isinstance(outcome, DriftQError):
            turn.counters.produce_refused += 1


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

"""A lane on Kafka: its positions read back, and transactions of events with its next position.

The order of opening is what makes it safe. A look at the lane comes first: a task of an older run refuses
itself there and disturbs nobody. Then the producer opens, which ends every transaction that an earlier
producer of the lane left, and fences it. Only now the positions are read, as they can no longer change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import uuid4

from driftq.errors import KafkaTopicNotFound
from driftq.kafka.cluster import KafkaCluster
from driftq.kafka.producing import BY_KEY, NOW, TRANSACTION_S, TransactionalProducer
from driftq.kafka.reading import PartitionReader
from driftq.model.options.kafka import KafkaOptions
from driftq.publishing.kafka.positions import (
    POSITIONS_TOPIC,
    LanePositions,
    Records,
    RunStamp,
    changes,
    fold_records,
    home_of,
    moved,
    positions_of,
    refuse_if_newer,
    require_ours,
)

Header = tuple[str, bytes | str | None]


class OutgoingEvent(NamedTuple):
    """A message to send, and its place in the log."""

    position: int
    topic: str
    key: str | None
    value: str | bytes
    headers: list[Header]
    partition: int = BY_KEY
    timestamp_ms: int = NOW


class _Look(NamedTuple):
    """What a lane's partition said up to an offset."""

    records: Records
    next_offset: int


class LaneLog:
    """The positions of one event log, for one process after the other. Raises our errors of Kafka."""

    def __init__(self, options: KafkaOptions, log: str, *, patience_s: float) -> None:
        self.options = options
        self.log = log
        self.patience_s = patience_s
        self.cluster = KafkaCluster(options, answer_s=patience_s)
        # Another log's publisher that was killed holds the partition until its transaction times out.
        self._reader = PartitionReader(options, patience_s=patience_s + 2 * TRANSACTION_S)

    def open_producer(self, lane: int, *, careful: bool = False) -> TransactionalProducer:
        """Fences every earlier producer of the lane. A `careful` one sends each message by itself."""
        alone = {"batch_num_messages": 1} if careful else {}
        name = f"driftq-{self.log}-lane-{lane}"
        return TransactionalProducer(self.options, name, patience_s=self.patience_s, **alone)

    def look(self, lane: int) -> _Look:
        """What is visible now; an open transaction may hide newer positions."""
        return self._read(lane, _Look({}, 0), committed=True)

    def settled(self, lane: int, look: _Look) -> LanePositions | None:
        """The lane's positions, after a look at it and when its producer is open."""
        return positions_of(self._read(lane, look, committed=False).records)

    def close(self) -> None:
        self.cluster.close()
        self._reader.close()

    def _read(self, lane: int, look: _Look, *, committed: bool) -> _Look:
        try:
            end = self.cluster.partition_end(POSITIONS_TOPIC, home_of(lane), committed=committed)
        except KafkaTopicNotFound:
            return _Look({}, 0)
        if end < look.next_offset:
            look = _Look({}, 0)  # Another topic of the same name.
        found = self._reader.read(POSITIONS_TOPIC, home_of(lane), start=look.next_offset, end=end)
        pairs = ((message.key(), message.value()) for message in found)
        return _Look(fold_records(look.records, self.log, lane, pairs), end)


def write_positions(
    producer: TransactionalProducer,
    log: str,
    lane: int,
    *,
    before: LanePositions | None,
    after: LanePositions,
) -> None:
    """Add the next positions to the producer's transaction."""
    for key, value in changes(log, lane, before, after):
        producer.send(POSITIONS_TOPIC, value, key, partition=home_of(lane))


class OpenLane:
    """A lane that this process may write to until another one opens it."""

    def __init__(self, lanes: LaneLog, lane: int, run: RunStamp, *, careful: bool = False) -> None:
        """Raises LaneRefused unless the lane is this run's."""
        self._lanes = lanes
        self._lane = lane
        self.run = run
        self.careful = careful
        look = lanes.look(lane)
        refuse_if_newer(positions_of(look.records), run, lane=lane)
        self.producer = lanes.open_producer(lane, careful=careful)
        try:
            self.positions = require_ours(lanes.settled(lane, look), run, lane=lane)
        except BaseException:
            self.close()
            raise
        self.name = uuid4().hex
        """Tells this opening from all others."""

    def commit(
        self,
        events: Iterable[OutgoingEvent],
        *,
        upto: int,
        sent_to: Mapping[str, str],
        flush_events: int,
    ) -> None:
        """One transaction: these events, and the position `upto`. After an error, open the lane again."""
        after = moved(self.positions, upto, sent_to=sent_to)
        producer = self.producer
        producer.begin()
        send = producer.send
        for number, (position, topic, key, value, headers, partition, timestamp_ms) in enumerate(events, 1):
            send(
                topic,
                value,
                key,
                headers,
                partition=partition,
                timestamp_ms=timestamp_ms,
                tag=position if self.careful else None,
            )
            if number % flush_events == 0:
                producer.flush()
        write_positions(producer, self._lanes.log, self._lane, before=self.positions, after=after)
        producer.commit()
        self.positions = after

    def close(self) -> None:
        self.producer.close()

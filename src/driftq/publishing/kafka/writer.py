"""Writing a lane within a task: transactions that are repeated until they count, once.

A producer can be lost in the middle: another task opened the lane, or Kafka forgot it. The lane is then
opened again, which refuses a run that was replaced, and its positions say what of the transaction counts.
Lanes stay open in a worker's process from batch to batch. Spark may run the next batch's task of a lane in
another process; so the driver says which opening was the last one, and any other is not used again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from driftq.errors import KafkaMessageRefused, KafkaProducerLost, KafkaUnavailable
from driftq.kafka.dead_letters import KEPT
from driftq.model.options.kafka import KafkaOptions
from driftq.model.topic import DEAD_LETTER_PREFIX
from driftq.publishing.kafka.lane import LaneLog, OpenLane, OutgoingEvent
from driftq.publishing.kafka.letters import dead_letter
from driftq.publishing.kafka.positions import LanePositions, RunStamp, moved, require_no_gap

logger = logging.getLogger("driftq.publisher")

MakeLetter = Callable[[OutgoingEvent, str], OutgoingEvent]
_ATTEMPTS = 20
_logs: dict[tuple[int, KafkaOptions, str], LaneLog] = {}
_open: dict[tuple[int, KafkaOptions, str, int], OpenLane] = {}
"""Of this process: a child of it must not use them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTarget:
    """The lane of a run that a task writes to, as plain values."""

    options: KafkaOptions
    log: str
    lane: int
    run: RunStamp
    opening: str | None
    """The name under which the lane was last opened, if this run has opened it."""
    flush_events: int
    patience_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneTargets:
    """The lanes of a run, for all of its tasks."""

    options: KafkaOptions
    log: str
    run: RunStamp
    openings: Mapping[int, str]
    """The name under which each lane was last opened by this run."""
    flush_events: int
    patience_s: float

    def of(self, lane: int) -> LaneTarget:
        return LaneTarget(
            options=self.options,
            log=self.log,
            lane=lane,
            run=self.run,
            opening=self.openings.get(lane),
            flush_events=self.flush_events,
            patience_s=self.patience_s,
        )


class LaneWriter:
    """One lane for one task. Raises LaneRefused, or an error of Kafka after which the batch is repeated."""

    def __init__(
        self, target: LaneTarget, *, topic_ids: Mapping[str, str], letter: MakeLetter = dead_letter
    ) -> None:
        """`letter` makes what is sent in place of a message that is too large, from it and Kafka's words."""
        self._target = target
        self._letter = letter
        self._ids = dict(topic_ids)
        self._lanes = _lane_log(target)
        self._opened = self._resume()
        self.sent = 0
        self.dead_letters = 0
        self.sent_to: dict[str, str] = {}
        """The topics that got events, with their ids."""

    @property
    def positions(self) -> LanePositions:
        return self._opened.positions

    @property
    def opening(self) -> str:
        return self._opened.name

    def finish(self) -> None:
        """The task is done: the lane stays open for the next batch, unless it is a careful one."""
        if self._opened.careful:
            logger.warning(
                "a topic refuses batches of lane %d that are smaller than the client's: "
                "set DRIFTQ_KAFKA_BATCH_SIZE below its max.message.bytes",
                self._target.lane,
            )
            self._opened.close()

    def require_no_gap(self, first: int) -> None:
        """Raises LaneRefused for a batch that would leave events out."""
        require_no_gap(self.positions, lane=self._target.lane, first=first)

    def commit(self, events: Sequence[OutgoingEvent], *, upto: int) -> None:
        """Send these events, which are all of the lane up to `upto` that is not sent, and move there."""
        letters: dict[int, OutgoingEvent] = {}
        for _ in range(_ATTEMPTS):
            sent = self._opened.positions.sent
            unsent = [event for event in events if event.position > sent(event.topic)]
            sent_to = self._topics({event.topic for event in unsent if event.position not in letters})
            if not unsent and moved(self.positions, upto, sent_to={}) == self.positions:
                return
            try:
                self._send(unsent, letters, upto=upto, sent_to=sent_to)
            except KafkaProducerLost as lost:
                logger.info("lane %d is opened again: %s", self._target.lane, lost)
                self._reopen()
            except KafkaMessageRefused as refused:
                found = self._too_large([one for one in unsent if one.position not in letters], refused)
                letters |= found
                self._reopen(careful=not found)  # Each fits alone: only batches of them were too large.
            else:
                self.sent += len(unsent) - len(letters)
                self.dead_letters += len(letters)
                self.sent_to |= sent_to
                return
        cause = f"lane {self._target.lane} was opened {_ATTEMPTS} times without success"
        raise KafkaUnavailable(str(self._target.options.bootstrap), cause=cause)

    def _send(
        self,
        events: Sequence[OutgoingEvent],
        letters: Mapping[int, OutgoingEvent],
        *,
        upto: int,
        sent_to: Mapping[str, str],
    ) -> None:
        outgoing: Sequence[OutgoingEvent] = events
        if letters:
            outgoing = [letters.get(event.position, event) for event in events]
            self._topics({letter.topic for letter in letters.values()})
        flush_events = self._target.flush_events
        try:
            self._opened.commit(outgoing, upto=upto, sent_to=sent_to, flush_events=flush_events)
        except BaseException:
            self._forget()
            raise

    def _too_large(
        self, events: Sequence[OutgoingEvent], refused: KafkaMessageRefused
    ) -> dict[int, OutgoingEvent]:
        """Letters for the events that Kafka does not take even alone; raises where size is not the reason."""
        at_fault = [one for one in self._opened.producer.refused if one.is_too_large]
        if not at_fault:
            raise refused
        if self._opened.careful:
            found = {one.tag for one in at_fault if one.tag is not None}
        else:
            found = self._tried_alone(events)
        cause = str(at_fault[0].error.str())
        return {one.position: self._letter(one, cause) for one in events if one.position in found}

    def _tried_alone(self, events: Sequence[OutgoingEvent]) -> set[int]:
        """The positions of events that are too large, found by trying the largest first; none counts."""
        found: set[int] = set()
        fitting: set[str] = set()
        self._reopen(careful=True)
        self._opened.producer.begin()
        for event in sorted(events, key=_size, reverse=True):
            if event.topic in fitting:
                continue  # A larger one fits.
            try:
                self._opened.producer.send(
                    event.topic, event.value, event.key, event.headers, partition=event.partition
                )
                self._opened.producer.flush()
                fitting.add(event.topic)
            except KafkaMessageRefused:
                found.add(event.position)
                self._reopen(careful=True)
                self._opened.producer.begin()
        return found

    def _topics(self, names: set[str]) -> dict[str, str]:
        """The id of each topic; one that does not exist is created."""
        missing = [name for name in names if not self._ids.get(name)]
        if missing:
            cluster = self._lanes.cluster
            for name in missing:
                cluster.create_topic(name, config=KEPT if name.startswith(DEAD_LETTER_PREFIX) else None)
            self._ids |= cluster.topic_ids(missing)
        return {name: self._ids[name] for name in names}

    def _resume(self) -> OpenLane:
        """The lane as the last batch left it in this process, if nobody has opened it since."""
        found = _open.get(self._key())
        if found is not None and found.name == self._target.opening and found.run == self._target.run:
            return found
        return self._reopened(careful=False)

    def _reopen(self, *, careful: bool = False) -> None:
        self._opened.close()
        self._opened = self._reopened(careful=careful)

    def _reopened(self, *, careful: bool) -> OpenLane:
        target = self._target
        opened = OpenLane(self._lanes, target.lane, target.run, careful=careful)
        self._forget()  # Only now: a run that is refused leaves the lane to its owner in this process.
        if not careful:
            _open[self._key()] = opened
        return opened

    def _forget(self) -> None:
        forgotten = _open.pop(self._key(), None)
        if forgotten is not None:
            forgotten.close()

    def _key(self) -> tuple[int, KafkaOptions, str, int]:
        return os.getpid(), self._target.options, self._target.log, self._target.lane


def _lane_log(target: LaneTarget) -> LaneLog:
    """One connection for all lanes of a process."""
    key = (os.getpid(), target.options, target.log)
    if key not in _logs:
        _logs[key] = LaneLog(target.options, target.log, patience_s=target.patience_s)
    return _logs[key]


def _size(event: OutgoingEvent) -> int:
    return len(event.value.encode()) if isinstance(event.value, str) else len(event.value)

"""The positions of the lanes on Kafka: what they mean, how they move, who may move them. Pure.

A lane's position p means: everything of this lane up to log position p is sent. It is not the last one sent,
so a lane without events moves too, and a batch that begins after p + 1 shows a gap. The lane also has a
record for each topic it has sent to, with the topic's id. Such a topic keeps up with the lane, or it was lost
(its id is another one now) and has a position of its own until it has caught up. A topic without a record has
got nothing from this lane, because there was nothing for it up to p.

Positions belong to a run of the publisher. A run takes a lane over by writing its own stamp there; from then
on every older run that reads it refuses itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

POSITIONS_TOPIC = "driftq.positions"
HOMES = 4
"""Partitions of that topic that are used: lane 4 shares one with lane 0, and so on."""
NOTHING_SENT = 0
NO_ID = ""
"""The id of a topic that does not exist."""


def home_of(lane: int) -> int:
    """The partition of POSITIONS_TOPIC where a lane's records are; it never changes."""
    return lane % HOMES


class RunStamp(NamedTuple):
    """One run of the publisher. The epoch grows with each; the name tells two with the same epoch apart."""

    epoch: int
    name: str


class SentTopic(msgspec.Struct, frozen=True):
    """A topic that a lane has sent to."""

    id: str
    position: int | None = None
    """Up to where it has everything; None where that is the lane's own position."""


class LanePositions(msgspec.Struct, frozen=True, kw_only=True):
    """How far one lane is, and whose it is."""

    run: RunStamp
    lanes: int
    """Into how many lanes the log is divided."""
    position: int = NOTHING_SENT
    topics: dict[str, SentTopic] = {}

    def sent(self, topic: str) -> int:
        """Everything for this topic up to here is sent."""
        found = self.topics.get(topic)
        return self.position if found is None or found.position is None else found.position

    @property
    def lowest(self) -> int:
        """Everything for every topic up to here is sent."""
        return min(
            [self.position, *(one.position for one in self.topics.values() if one.position is not None)]
        )

    @property
    def behind(self) -> list[str]:
        """The topics that have to catch up."""
        return [name for name, one in self.topics.items() if one.position is not None]


class LaneRefused(Exception):
    """A lane that this run must not write to: another run has it, or it lost what it had."""

    def __init__(self, text: str, *, epoch: int | None = None) -> None:
        """`epoch` is that of the other run."""
        super().__init__(text)
        self.text = text
        self.epoch = epoch

    @property
    def replaced(self) -> bool:
        return self.epoch is not None


def taken_over(
    found: LanePositions | None, run: RunStamp, *, lane: int, lanes: int, ids: Mapping[str, str]
) -> LanePositions:
    """The same positions for a new run, given the ids that the topics have now.

    Nothing counts as sent to a topic with another id. Raises LaneRefused where a newer run was faster.
    """
    refuse_if_newer(found, run, lane=lane)
    if found is None:
        return LanePositions(run=run, lanes=lanes)
    topics = {
        name: one if one.id == ids.get(name, NO_ID) else SentTopic(ids.get(name, NO_ID), NOTHING_SENT)
        for name, one in found.topics.items()
    }
    return LanePositions(run=run, lanes=found.lanes, position=found.position, topics=topics)


def refuse_if_newer(found: LanePositions | None, run: RunStamp, *, lane: int) -> None:
    """Raises LaneRefused where a newer run has the lane."""
    if found is not None and found.run != run and found.run.epoch >= run.epoch:
        raise LaneRefused(f"run {found.run.epoch} has taken over lane {lane}", epoch=found.run.epoch)


def require_ours(found: LanePositions | None, run: RunStamp, *, lane: int) -> LanePositions:
    """The positions, if they are this run's; else LaneRefused."""
    refuse_if_newer(found, run, lane=lane)
    if found is not None and found.run == run:
        return found
    raise LaneRefused(f"the position of lane {lane} in {POSITIONS_TOPIC} is gone")


def require_no_gap(found: LanePositions, *, lane: int, first: int) -> None:
    """Raises LaneRefused for a batch that begins after the next position: events between would be lost."""
    if found.lowest + 1 < first:
        raise LaneRefused(f"lane {lane} is at {found.lowest}, and a batch begins at {first}")


def moved(found: LanePositions, upto: int, *, sent_to: Mapping[str, str]) -> LanePositions:
    """The positions when everything up to `upto` is sent; `sent_to` has the ids of topics that got some."""
    position = max(found.position, upto)
    topics: dict[str, SentTopic] = {}
    for name, one in found.topics.items():
        at = None if one.position is None else max(one.position, upto)
        topic = SentTopic(sent_to.get(name, one.id), None if at is None or at >= position else at)
        if topic.id == NO_ID and topic.position is None:
            continue  # The lane has nothing for it.
        topics[name] = topic
    for name, topic_id in sent_to.items():
        topics.setdefault(name, SentTopic(topic_id))
    return msgspec.structs.replace(found, position=position, topics=topics)


class _LaneValue(msgspec.Struct, frozen=True):
    epoch: int
    run: str
    lanes: int
    position: int


class _TopicValue(msgspec.Struct, frozen=True):
    epoch: int
    topic_id: str
    position: int | None


_encode = msgspec.json.Encoder().encode
_key = msgspec.json.Decoder(tuple[str, str, int]).decode
_lane_value = msgspec.json.Decoder(_LaneValue).decode
_topic_value = msgspec.json.Decoder(_TopicValue).decode

Records = dict[str, bytes]
"""The newest value by topic; that of the lane itself has no topic."""


def fold_records(
    found: Records, log: str, lane: int, messages: Iterable[tuple[bytes | None, bytes | None]]
) -> Records:
    """What the lane's partition says about this log, after these messages of it."""
    found = dict(found)
    for key, value in messages:
        try:
            whose, topic, number = _key(key or b"")
        except ValueError:
            continue  # Not ours.
        if (whose, number) != (log, lane):
            continue
        if value is None:
            found.pop(topic, None)
        else:
            found[topic] = value
    return found


def positions_of(records: Records) -> LanePositions | None:
    """None where the lane has no record."""
    own = records.get("")
    if own is None:
        return None
    lane = _lane_value(own)
    values = {topic: _topic_value(value) for topic, value in records.items() if topic}
    topics = {topic: SentTopic(value.topic_id, value.position) for topic, value in values.items()}
    return LanePositions(
        run=RunStamp(lane.epoch, lane.run), lanes=lane.lanes, position=lane.position, topics=topics
    )


def changes(
    log: str, lane: int, before: LanePositions | None, after: LanePositions
) -> Iterator[tuple[bytes, bytes | None]]:
    """The messages that turn one into the other: the lane's own record, and topics that differ."""
    epoch, run = after.run
    value = _LaneValue(epoch, run, after.lanes, after.position)
    yield _encode((log, "", lane)), _encode(value)
    old = {} if before is None else before.topics
    for topic in old.keys() - after.topics.keys():
        yield _encode((log, topic, lane)), None
    for topic, one in after.topics.items():
        if old.get(topic) != one:
            yield _encode((log, topic, lane)), _encode(_TopicValue(epoch, one.id, one.position))

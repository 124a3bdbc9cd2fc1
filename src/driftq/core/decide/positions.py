"""Clients that keep their own positions: writers append by position, readers report how far they have read.

An append is one decision: all of its new messages are stored, with the lane's new position in the same frame,
or none of them is. Messages that the lane has already are skipped, and appends of a fenced older run are
refused.
"""

from itertools import pairwise

import msgspec

from driftq.core.commands import AppendByPosition
from driftq.core.decide.produce import Lookup, ProduceBatch, decide_produce
from driftq.core.records import LaneMoved, ReaderReported, WriterOpened
from driftq.core.state import PositionWriter, State, Topic
from driftq.errors import DriftQError, InvalidArgument, LaneBehind, WriterFenced


class AppendedMessages(msgspec.Struct, frozen=True):
    """How many messages are new, how many were stored before, and the lane's last position."""

    appended: int
    skipped: int
    position: int


class OpenedWriter(msgspec.Struct, frozen=True):
    """The current epoch, and the last position of each lane that has one."""

    epoch: int
    lanes: dict[int, int]


class AppendDecision(msgspec.Struct):
    """The outcome; batch and move go into one frame. There is no move when all were stored before."""

    answer: AppendedMessages
    batch: ProduceBatch
    moved: LaneMoved | None


def decide_writer(topic: Topic, writer: str, *, epoch: int | None, now: int) -> WriterOpened | None:
    """Open an epoch, the next one when none is given; None when it is current already."""
    newest = topic.writers.get(writer, PositionWriter()).epoch
    if epoch is None:
        return WriterOpened(at=now, topic=topic.id, writer=writer, epoch=newest + 1)
    if epoch < newest:
        raise WriterFenced(writer, newest=newest, given=epoch)
    if epoch == newest and writer in topic.writers:
        return None
    return WriterOpened(at=now, topic=topic.id, writer=writer, epoch=epoch)


def decide_append(
    state: State, topic: Topic, command: AppendByPosition, *, lookup: Lookup, now: int, wall: int
) -> AppendDecision:
    """The new messages of this append. Raises the first error of a message, and then nothing is stored."""
    writer = topic.writers.get(command.writer, PositionWriter())
    if command.epoch < writer.epoch:
        raise WriterFenced(command.writer, newest=writer.epoch, given=command.epoch)
    last = writer.position(command.lane)
    if command.after is not None and last < command.after:
        raise LaneBehind(command.writer, lane=command.lane, position=last, after=command.after)
    if any(one >= other for one, other in pairwise(command.positions)):
        raise InvalidArgument("messages", "positions must rise from message to message")
    fresh = [
        message
        for position, message in zip(command.positions, command.messages, strict=True)
        if position > last
    ]
    if not fresh:
        return AppendDecision(AppendedMessages(0, len(command.messages), last), ProduceBatch([], []), None)
    batch = decide_produce(state, topic, fresh, lookup=lookup, now=now, wall=wall)
    stored = 0
    for outcome in batch.outcomes:
        if isinstance(outcome, DriftQError):
            raise outcome
        stored += isinstance(outcome, tuple)
    moved = LaneMoved(
        at=now,
        topic=topic.id,
        writer=command.writer,
        epoch=command.epoch,
        lane=command.lane,
        position=command.positions[-1],
    )
    answer = AppendedMessages(stored, len(command.messages) - stored, moved.position)
    return AppendDecision(answer, batch, moved)


def decide_reader(topic: Topic, reader: str, *, offsets: dict[int, int], now: int) -> ReaderReported:
    """A reader reports the offset, exclusive, up to which it has read each partition."""
    positions: list[tuple[int, int]] = []
    for number, offset in sorted(offsets.items()):
        if not 0 <= number < len(topic.partitions):
            raise InvalidArgument("offsets", f"partition {number} is out of range")
        if offset < 0:
            raise InvalidArgument("offsets", "an offset must not be negative")
        positions.append((number, topic.partitions[number].index.first_ordinal_from(offset)))
    return ReaderReported(at=now, topic=topic.id, reader=reader, positions=positions)

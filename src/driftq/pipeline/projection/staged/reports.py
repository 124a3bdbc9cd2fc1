"""The report of a task, which is all that the driver gets: how far it has read, and what it has staged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from driftq.errors import ReadModelUnavailable
from driftq.sinks import AttemptReport, ProjectionDeadLetter, TopicPartition

SCHEMA = "report binary"
"""Of the rows that tasks return, as Spark spells it."""
_ARROW = pa.schema([pa.field("report", pa.binary())])


class ReadUpTo(msgspec.Struct, frozen=True):
    """The last offset of a partition that a task has read."""

    topic: str
    partition: int
    offset: int


class TaskReport(msgspec.Struct, frozen=True, kw_only=True):
    """Of one task. Its attempt is missing where the target was away."""

    read: tuple[ReadUpTo, ...] = ()
    attempt: AttemptReport | None = None
    unavailable: str | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(TaskReport).decode


@dataclass(slots=True)
class StagedPart:
    """What some jobs of one batch have staged, and the dead letters that the driver found."""

    attempts: list[AttemptReport] = field(default_factory=list)
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    dead_letters: list[ProjectionDeadLetter] = field(default_factory=list)

    @property
    def has_dead_letters(self) -> bool:
        return self.dead_letter_count > 0

    @property
    def dead_letter_count(self) -> int:
        return len(self.dead_letters) + sum(each.dead_letters for each in self.attempts)

    def add(self, other: StagedPart) -> None:
        self.attempts += other.attempts
        self.dead_letters += other.dead_letters
        for place, offset in other.positions.items():
            self.positions[place] = max(offset, self.positions.get(place, -1))


def as_rows(report: TaskReport) -> Iterator[pa.RecordBatch]:
    """One row, for Spark."""
    yield pa.RecordBatch.from_pydict({"report": [_encode(report)]}, schema=_ARROW)


def read_reports(rows: Iterable[bytes], *, address: str) -> StagedPart:
    """Raises ReadModelUnavailable where the target was away from a task."""
    part = StagedPart()
    for report in map(_decode, rows):
        if report.attempt is None:
            raise ReadModelUnavailable(address, cause=report.unavailable or "a task could not write")
        positions = {TopicPartition(at.topic, at.partition): at.offset for at in report.read}
        part.add(StagedPart([report.attempt], positions))
    return part


def read_up_to(table: pa.Table) -> tuple[ReadUpTo, ...]:
    """The last offset of each partition in a table with the columns topic, partition and offset."""
    ends = table.select(["topic", "partition", "offset"]).group_by(["topic", "partition"])
    columns = ends.aggregate([("offset", "max")]).select(["topic", "partition", "offset_max"]).columns
    return tuple(ReadUpTo(*row) for row in zip(*(column.to_pylist() for column in columns), strict=True))

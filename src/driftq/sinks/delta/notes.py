"""Notes beside the rows: dead letters, out-of-order events, redrive marks, known partitions.

Notes are written before the commit of the batch that they belong to. A note that is there too early, or from
a run that was replaced before its commit, does no harm: an event waits only while its aggregate's row is
below it, a partition counts only with a position, and a dead letter was published before in any case. A note
belongs to a generation, so those of a rebuild count when its rows do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from driftq.model import Aggregate
from driftq.sinks.arrow_rows import as_table, dead_letter_table, stored_dead_letters, tuples
from driftq.sinks.dead_letters import dead_letter_id_of
from driftq.sinks.delta.sink import TableLocation
from driftq.sinks.delta.tables import CommitOvertaken, ExactTable
from driftq.sinks.manifest import RedrivenLetter
from driftq.sinks.port import OutOfOrderEvent, ProjectionDeadLetter, TopicPartition

WAITING = "waiting"
DEAD_LETTER = "dead_letter"
KEPT_LETTER = "kept_letter"
"""A dead letter that a rebuild has taken over from the generation before."""
REDRIVEN = "redriven"
PARTITION = "partition"
NOTES = pa.schema(
    [
        pa.field("generation", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("aggregate_id", pa.string()),
        pa.field("text", pa.string(), nullable=False),
    ]
)
_KEY = ("generation", "kind", "id")
_encode = msgspec.json.Encoder().encode
_Kind = TypeVar("_Kind")


class DeltaNote(NamedTuple):
    """One row of the notes; `text` is JSON. The first one with an id stays, except for redrive marks."""

    generation: int
    kind: str
    id: str
    aggregate_id: str | None
    text: str


class DeltaNotes:
    """The notes of one projection."""

    def __init__(self, name: str, location: TableLocation, *, history_hours: int) -> None:
        self._name = name
        self._location = location
        self._history_hours = history_hours
        self._table: ExactTable | None = None

    def make(self) -> ExactTable:
        """The table, created where it is missing."""
        self._table = ExactTable.make(
            self._location,
            NOTES,
            indexed=_KEY,
            partition_by=["generation"],
            history_hours=self._history_hours,
        )
        return self._table

    def put(self, notes: Iterable[DeltaNote]) -> None:
        unique = {note[:3]: note for note in reversed(list(notes))}
        if not unique:
            return
        rows = as_table(list(unique.values()), NOTES)
        while True:
            table = self.table() or self.make()
            try:
                table.merge(rows, on=_KEY, update_if=f"s.kind = '{REDRIVEN}'")
            except CommitOvertaken:
                continue
            return

    def discard(self, notes: Sequence[DeltaNote]) -> None:
        table = self.table()
        if notes and table is not None:
            table.discard(as_table(list(notes), NOTES), on=_KEY)

    def drop_before(self, generation: int) -> None:
        """Those of generations that a rebuild has replaced."""
        table = self.table()
        if table is not None:
            table.delete(f"generation < {generation}")

    def find(
        self, generation: int, *kinds: str, aggregates: Sequence[Aggregate] | None = None
    ) -> list[DeltaNote]:
        table = self.table()
        if table is None:
            return []
        where = (pc.field("generation") == generation) & pc.field("kind").isin(list(kinds))
        if aggregates is not None:
            where &= pc.field("aggregate_id").isin(sorted({aggregate.id for aggregate in aggregates}))
        return [DeltaNote(*row) for row in tuples(table.read(NOTES, where=where))]

    def partitions(self, generation: int) -> list[TopicPartition]:
        return [_decoded(note, TopicPartition) for note in self.find(generation, PARTITION)]

    def waiting(
        self, generation: int, *, aggregates: Sequence[Aggregate] | None = None
    ) -> list[OutOfOrderEvent]:
        found = self.find(generation, WAITING, aggregates=aggregates)
        return sorted(_decoded(note, OutOfOrderEvent) for note in found)

    def dead_letters(self, generation: int, *kinds: str) -> dict[str, ProjectionDeadLetter]:
        """By id; of equal ones the one of the earlier generation."""
        found = sorted(
            self.find(generation, *(kinds or (DEAD_LETTER, KEPT_LETTER))), key=lambda note: note.kind
        )
        return {note.id: _decoded(note, ProjectionDeadLetter) for note in found}

    def redriven(self, generation: int) -> tuple[RedrivenLetter, ...]:
        return tuple(
            msgspec.json.decode(note.text, type=RedrivenLetter) for note in self.find(generation, REDRIVEN)
        )

    def table(self) -> ExactTable | None:
        """As it is now; None where there is none."""
        if self._table is None:
            self._table = ExactTable.open(self._location)
        else:
            self._table.refresh()
        return self._table

    def dead_letter_notes(
        self, generation: int, dead_letters: Sequence[ProjectionDeadLetter], *, kind: str = DEAD_LETTER
    ) -> list[DeltaNote]:
        storable = stored_dead_letters(dead_letter_table(dead_letters))
        return [
            DeltaNote(generation, kind, dead_letter_id_of(self._name, dead), None, _encode(text).decode())
            for dead, text in zip(dead_letters, storable, strict=True)
        ]


def waiting_notes(generation: int, events: Sequence[OutOfOrderEvent]) -> list[DeltaNote]:
    return [
        DeltaNote(
            generation, WAITING, _encode(event[:3]).decode(), event.aggregate_id, _encode(event).decode()
        )
        for event in events
    ]


def partition_notes(generation: int, places: Iterable[TopicPartition]) -> list[DeltaNote]:
    texts = [_encode(place).decode() for place in places]
    return [DeltaNote(generation, PARTITION, text, None, text) for text in texts]


def redriven_notes(generation: int, marks: Iterable[RedrivenLetter]) -> list[DeltaNote]:
    return [DeltaNote(generation, REDRIVEN, mark.id, None, _encode(mark).decode()) for mark in marks]


def _decoded(note: DeltaNote, kind: type[_Kind]) -> _Kind:
    return msgspec.json.decode(note.text, type=kind)

"""Rows in a Delta table, with their positions in the same commit and their notes before it.

A batch is written by MERGE under the rule that the newest sequence wins, so it may be repeated at any time.
Its positions are numbers of the same commit. The writer's own number is compared on the handle that commits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from driftq.errors import InvalidArgument, ReadModelNotFound
from driftq.model import Aggregate
from driftq.sinks.arrow_rows import CHANGES, as_table, newest, tuples
from driftq.sinks.delta import numbers
from driftq.sinks.delta.failures import reaching
from driftq.sinks.delta.notes import DeltaNotes, partition_notes, waiting_notes
from driftq.sinks.delta.sink import TableLocation
from driftq.sinks.delta.tables import CommitOvertaken, ExactTable
from driftq.sinks.port import (
    Application,
    Change,
    OutOfOrderEvent,
    ProjectionDeadLetter,
    ReadModelRow,
    RegistryRow,
    TopicPartition,
    WriterEpoch,
)

_KEY = ("aggregate_type", "aggregate_id")
_INDEXED = (*_KEY, "sequence_number")
_NEEDED = [field.name for field in CHANGES if not field.nullable]


class OpenRows(NamedTuple):
    """A table of rows as it is now, and the generation whose notes and positions belong to it."""

    table: ExactTable
    generation: int


class DeltaRows(ABC):
    """What both have in common."""

    def __init__(self, name: str, location: TableLocation, *, history_hours: int) -> None:
        self.name = name
        self.address = location.uri
        self._location = location
        self._history_hours = history_hours
        self._notes = DeltaNotes(name, location.child("_driftq_notes"), history_hours=history_hours)
        self._live: ExactTable | None = None
        self._settled: dict[TopicPartition, int] = {}
        self._settled_in: WriterEpoch | None = None
        """The epoch in which this object has settled these: no other writer moves them in it."""

    def check(self) -> None:
        """Raises a ReadModelUnavailable when the place is unreachable; a missing table is fine."""
        with reaching(self.address):
            self._open_live()

    def apply(self, application: Application, writer_epoch: WriterEpoch) -> None:
        rows = storable_rows(application.changes)
        with reaching(self.address):
            opened = self._require(writer_epoch)
            settled = self._settled_now(opened, writer_epoch)
            moved = {
                place: offset
                for place, offset in application.positions.items()
                if offset > settled.get(place, -1)
            }
            self._notes.put(
                [
                    *partition_notes(opened.generation, (place for place in moved if place not in settled)),
                    *waiting_notes(opened.generation, application.waiting),
                    *self._notes.dead_letter_notes(opened.generation, application.dead_letters),
                ]
            )
            if rows.num_rows or moved:
                self._settled_in = None  # Until the commit is known to have succeeded.
                self._commit(opened, writer_epoch, rows, moved)
                self._settled, self._settled_in = settled | moved, writer_epoch

    def positions(self) -> dict[TopicPartition, int]:
        with reaching(self.address):
            opened = self._open()
            return self._positions(opened) if opened is not None else {}

    def current(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        with reaching(self.address):
            return self._current(self._opened(), aggregates)

    def waiting(self, aggregates: Sequence[Aggregate]) -> list[OutOfOrderEvent]:
        wanted = set(aggregates)
        with reaching(self.address):
            opened = self._opened()
            found = self._notes.waiting(opened.generation, aggregates=aggregates)
            return self._still_waiting(opened, [event for event in found if Aggregate(*event[:2]) in wanted])

    def rows(self) -> Iterator[ReadModelRow]:
        decode = msgspec.json.Decoder().decode
        for kind, aggregate_id, sequence, _, state in tuples(self.table()):
            if state is not None:
                yield ReadModelRow(kind, aggregate_id, sequence, decode(state))

    def registry(self) -> Iterator[RegistryRow]:
        for row in tuples(self.table()):
            yield RegistryRow(*row[:4])

    def dead_letters(self) -> Iterator[ProjectionDeadLetter]:
        with reaching(self.address):
            found = self._notes.dead_letters(self._opened().generation).values()
        yield from sorted(found, key=lambda dead: (*dead[:3], dead.identity, dead.stage))

    def table(self) -> pa.Table:
        """Every aggregate's row, tombstones too, by type and id."""
        with reaching(self.address):
            return newest(self._opened().table.read(CHANGES))

    def close(self) -> None:  # noqa: B027 - Both of them have nothing to close.
        """Nothing to close."""

    def _commit(
        self,
        opened: OpenRows,
        writer_epoch: WriterEpoch,
        rows: pa.Table,
        moved: Mapping[TopicPartition, int],
    ) -> None:
        """Rows and positions under the next number of this epoch."""
        app = numbers.writer(self.name)
        number: int | None = None
        while True:
            stored = opened.table.stored(app) or numbers.first_of(writer_epoch.epoch)
            if number is not None and stored >= number:
                return  # The storage has stored it and could not say so.
            number = number or stored + 1
            told = {app: number} | {
                numbers.position(self.name, opened.generation, place): offset
                for place, offset in moved.items()
            }
            try:
                write_rows(opened.table, rows, told)
            except CommitOvertaken:
                opened = self._require(writer_epoch)
                continue
            return

    def _settled_now(self, opened: OpenRows, writer_epoch: WriterEpoch) -> dict[TopicPartition, int]:
        return self._settled if self._settled_in == writer_epoch else self._positions(opened)

    def _positions(self, opened: OpenRows) -> dict[TopicPartition, int]:
        found = {
            place: opened.table.stored(numbers.position(self.name, opened.generation, place))
            for place in self._notes.partitions(opened.generation)
        }
        return {place: offset for place, offset in found.items() if offset is not None}

    def _current(self, opened: OpenRows, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        ids = pa.array(sorted({aggregate.id for aggregate in aggregates}), pa.string())
        found = opened.table.read(CHANGES, where=pc.field("aggregate_id").isin(ids))
        rows = {Aggregate(*row[:2]): Change(*row) for row in tuples(found)}
        return {aggregate: rows[aggregate] for aggregate in aggregates if aggregate in rows}

    def _still_waiting(self, opened: OpenRows, events: Sequence[OutOfOrderEvent]) -> list[OutOfOrderEvent]:
        if not events:
            return []
        rows = self._current(opened, list({Aggregate(*event[:2]) for event in events}))
        reached = {aggregate: row.sequence_number for aggregate, row in rows.items()}
        return [event for event in events if event.sequence_number > reached.get(Aggregate(*event[:2]), 0)]

    def _opened(self) -> OpenRows:
        opened = self._open()
        if opened is None:
            raise ReadModelNotFound(self.name, place=self.address)
        return opened

    @abstractmethod
    def _open(self) -> OpenRows | None:
        """The table as it is now; None where it was never written."""

    @abstractmethod
    def _require(self, writer_epoch: WriterEpoch) -> OpenRows:
        """The same for its writer; raises ProjectionFenced or ReadModelSwapped."""

    def _open_live(self) -> ExactTable | None:
        if self._live is None:
            self._live = ExactTable.open(self._location)
        else:
            self._live.refresh()
        return self._live

    def _make_live(self) -> ExactTable:
        live = self._open_live()
        if live is None:
            live = self._live = self._make_rows(self._location)
        self._notes.make()
        return live

    def _make_rows(self, location: TableLocation) -> ExactTable:
        return ExactTable.make(location, CHANGES, indexed=_INDEXED, history_hours=self._history_hours)


def storable_rows(changes: Sequence[Change]) -> pa.Table:
    """One row for each aggregate; raises InvalidArgument for a change that no table can hold."""
    for change in changes:
        if None in change[:4]:
            missing = _NEEDED[change.index(None)]
            raise InvalidArgument("row", f"has no {missing}")
    return newest(as_table(changes, CHANGES))


def write_rows(table: ExactTable, rows: pa.Table, told: Mapping[str, int]) -> None:
    """Of each aggregate the row with the highest sequence stays; raises CommitOvertaken."""
    if rows.num_rows == 0:
        table.commit(told)
    else:
        table.merge(rows, on=_KEY, update_if="s.sequence_number > t.sequence_number", numbers=told)

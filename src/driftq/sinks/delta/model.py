"""A read model in Delta tables, and the one that a rebuild fills beside it.

They differ in the table that they write and in what fences them. The numbers of all rebuilds are in the live
table, so a rebuild takes over by a commit there. No rebuild uses the folder of an earlier one. The swap is a
commit of the live table as well: its next version consists of the files that the rebuild has written, and has
the rebuild's positions. No file is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from driftq.errors import ProjectionFenced, ReadModelSwapped
from driftq.model import Aggregate
from driftq.sinks.dead_letters import RedriveMark
from driftq.sinks.delta import numbers
from driftq.sinks.delta.failures import reaching
from driftq.sinks.delta.maintenance import Maintenance, remove_leftovers
from driftq.sinks.delta.notes import DEAD_LETTER, KEPT_LETTER, DeltaNote, redriven_notes, waiting_notes
from driftq.sinks.delta.rows import DeltaRows, OpenRows, storable_rows, write_rows
from driftq.sinks.delta.sink import TableLocation
from driftq.sinks.delta.tables import CommitOvertaken, ExactTable
from driftq.sinks.manifest import Reached, ReadModelManifest
from driftq.sinks.marks import rebuilt_marks, with_mark
from driftq.sinks.port import Application, Change, TopicPartition, WriterEpoch


class DeltaReadModel(DeltaRows):
    """The table that readers open."""

    def __init__(self, name: str, location: TableLocation, *, history_hours: int) -> None:
        super().__init__(name, location, history_hours=history_hours)
        self._maintenance = Maintenance()

    def take_over(self) -> WriterEpoch:
        app = numbers.writer(self.name)
        with reaching(self.address):
            live = self._make_live()
            while True:
                epoch = numbers.epoch_of(live.stored(app)) + 1
                try:
                    live.commit({app: numbers.first_of(epoch)})
                except CommitOvertaken:
                    continue
                self._maintenance.begin(live)
                return WriterEpoch(epoch, self._generation(live))

    def apply(self, application: Application, writer_epoch: WriterEpoch) -> None:
        super().apply(application, writer_epoch)
        self._maintain()

    def put(self, changes: Sequence[Change]) -> None:
        rows = storable_rows(changes)
        with reaching(self.address):
            while True:
                with suppress(CommitOvertaken):
                    write_rows(self._opened().table, rows, {})
                    return

    def redrive(self, change: Change, dead_letter_id: str, *, by: str) -> bool:
        """The row first: a crash before the mark leaves a dead letter that can be redriven again."""
        aggregate = Aggregate(change.aggregate_type, change.aggregate_id)
        rows = storable_rows([change])
        with reaching(self.address):
            while True:
                opened = self._opened()
                current = self._current(opened, [aggregate]).get(aggregate)
                is_newer = current is None or current.sequence_number < change.sequence_number
                try:
                    if is_newer:
                        write_rows(opened.table, rows, {})
                except CommitOvertaken:
                    continue
                self._notes.put(redriven_notes(opened.generation, with_mark((), dead_letter_id, by=by)))
                return is_newer

    def redrive_marks(self) -> dict[str, RedriveMark]:
        with reaching(self.address):
            opened = self._open()
            marks = self._notes.redriven(opened.generation) if opened is not None else ()
        return {mark.id: RedriveMark(mark.at, mark.by) for mark in marks}

    def beside(self) -> DeltaRebuild:
        return DeltaRebuild(self.name, self._location, history_hours=self._history_hours)

    def swap(self, beside: WriterEpoch) -> None:
        fresh = self.beside()
        with reaching(self.address):
            while True:
                live = self._make_live()
                require_rebuild(self.name, live, beside)
                generation = self._generation(live)
                if generation == beside.epoch:
                    break  # An earlier try has swapped and could not say so.
                filled, positions = fresh.filled(beside)
                self._take_letters(generation, beside.epoch, positions)
                told = {numbers.generation(self.name): beside.epoch} | {
                    numbers.position(self.name, beside.epoch, place): offset
                    for place, offset in positions.items()
                }
                try:
                    live.replace_files(filled.table.files(under=folder_of(beside.epoch)), told)
                except CommitOvertaken:
                    continue
                break
            remove_leftovers(live, self._notes, generation=beside.epoch)

    def _maintain(self) -> None:
        if self._live is not None and self._maintenance.is_due(self._live):
            self._maintenance.run(self._live, self._notes, self._reached_notes)

    def _take_letters(self, before: int, after: int, positions: dict[TopicPartition, int]) -> None:
        """Keep the dead letters of the replaced rows; what the rebuild has applied counts as redriven."""
        letters = self._notes.dead_letters(before)
        given_up = self._notes.dead_letters(after, DEAD_LETTER)
        reached = tuple(Reached(*place[:2], offset, place.identity) for place, offset in positions.items())
        marks = rebuilt_marks(
            ReadModelManifest(redriven=self._notes.redriven(before)),
            letters,
            ReadModelManifest(reached=reached),
            given_up,
        )
        self._notes.put(
            [
                *self._notes.dead_letter_notes(after, list(letters.values()), kind=KEPT_LETTER),
                *redriven_notes(after, marks),
            ]
        )

    def _reached_notes(self) -> list[DeltaNote]:
        """Of events that wait no longer: their aggregate has reached them."""
        opened = self._opened()
        every = self._notes.waiting(opened.generation)
        left = set(self._still_waiting(opened, every))
        return waiting_notes(opened.generation, [event for event in every if event not in left])

    def _open(self) -> OpenRows | None:
        live = self._open_live()
        return OpenRows(live, self._generation(live)) if live is not None else None

    def _require(self, writer_epoch: WriterEpoch) -> OpenRows:
        opened = self._open()
        number = opened.table.stored(numbers.writer(self.name)) if opened is not None else None
        if opened is None or numbers.epoch_of(number) != writer_epoch.epoch:
            raise ProjectionFenced(self.name, epoch=writer_epoch.epoch, current=numbers.epoch_of(number))
        if opened.generation != writer_epoch.generation:
            raise ReadModelSwapped(self.name)
        return opened

    def _generation(self, live: ExactTable) -> int:
        return live.stored(numbers.generation(self.name)) or 0


class DeltaRebuild(DeltaReadModel):
    """The table of the newest rebuild. Nobody reads it, so it is not maintained."""

    def __init__(self, name: str, location: TableLocation, *, history_hours: int) -> None:
        super().__init__(name, location, history_hours=history_hours)
        self._filling: OpenRows | None = None

    def take_over(self) -> WriterEpoch:
        app = numbers.rebuild(self.name)
        with reaching(self.address):
            live = self._make_live()
            while True:
                epoch = (live.stored(app) or 0) + 1
                try:
                    live.commit({app: epoch})
                except CommitOvertaken:
                    continue
                self._make_rows(self._location.child(folder_of(epoch)))
                return WriterEpoch(epoch, epoch)

    def filled(self, writer_epoch: WriterEpoch) -> tuple[OpenRows, dict[TopicPartition, int]]:
        """Its table and its positions, for the swap."""
        opened = self._table_of(writer_epoch.epoch)
        return opened, self._positions(opened)

    def _maintain(self) -> None:
        """Vacuuming would delete files that the live table may have by now."""

    def _open(self) -> OpenRows | None:
        live = self._open_live()
        epoch = live.stored(numbers.rebuild(self.name)) if live is not None else None
        return self._table_of(epoch) if epoch is not None else None

    def _require(self, writer_epoch: WriterEpoch) -> OpenRows:
        live = self._make_live()
        require_rebuild(self.name, live, writer_epoch)
        if live.stored(numbers.generation(self.name)) == writer_epoch.epoch:
            raise ReadModelSwapped(self.name)
        return self._table_of(writer_epoch.epoch)

    def _table_of(self, epoch: int) -> OpenRows:
        if self._filling is not None and self._filling.generation == epoch:
            self._filling.table.refresh()
        else:
            self._filling = OpenRows(self._make_rows(self._location.child(folder_of(epoch))), epoch)
        return self._filling


def folder_of(rebuild: int) -> str:
    """Where a rebuild writes: its files stay there when they have become those of the live table."""
    return f"rebuild-{rebuild}"


def require_rebuild(name: str, live: ExactTable, writer_epoch: WriterEpoch) -> None:
    """Raises ProjectionFenced when another rebuild has begun since."""
    newest = live.stored(numbers.rebuild(name)) or 0
    if newest != writer_epoch.epoch:
        raise ProjectionFenced(name, epoch=writer_epoch.epoch, current=newest)

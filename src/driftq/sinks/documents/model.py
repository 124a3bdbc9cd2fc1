"""A read model of documents in a target without transactions.

    control text    epoch, generation, place and positions, of the live read model and of a rebuild's
    place           one document for each aggregate, and notes: waiting events, dead letters, redrive marks

A batch is stored in this order: notes, then documents, and only when the result of each is known the control
text with the new positions, by compare-and-set. A run that stops in between has written documents and notes
that its successor writes again, to the same effect: a document's sequence decides, not who writes it. So a
reader may see a part of a batch before the rest. Positions are moved by the run that the control text names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

import msgspec

from driftq.errors import (
    DocumentRefused,
    ProjectionFenced,
    ReadModelNotFound,
    ReadModelSwapped,
    ReadModelUnavailable,
)
from driftq.model import Aggregate
from driftq.sinks.dead_letters import RedriveMark
from driftq.sinks.documents.batch import DocumentBatch
from driftq.sinks.documents.control import DocumentControl, WrittenPlace, change_control, read_control
from driftq.sinks.documents.letters import LetterNotes
from driftq.sinks.documents.place import DocumentPlace
from driftq.sinks.documents.port import DocumentSink, DocumentStore
from driftq.sinks.documents.waiting import find_waiting, put_waiting, remove_reached
from driftq.sinks.names import projection_name
from driftq.sinks.port import (
    Application,
    Change,
    OutOfOrderEvent,
    ProjectionDeadLetter,
    ReadModelRow,
    RefusedChange,
    RegistryRow,
    TopicPartition,
    WriterEpoch,
)

_Found = TypeVar("_Found")


class DocumentReadModel:
    """One projection in a document store: the live read model, or the one that a rebuild fills."""

    def __init__(
        self, name: str, sink: DocumentSink, store: DocumentStore, *, is_beside: bool = False
    ) -> None:
        self.name = name
        self.sink = sink
        self.store = store
        self._is_beside = is_beside

    @classmethod
    def open(cls, sink: DocumentSink, projection: str) -> DocumentReadModel:
        """Raises InvalidArgument for an invalid name, and ReadModelUnavailable for an unreachable target."""
        name = projection_name(projection)
        store = sink.open_store(name)
        try:
            read_control(store)  # Some clients connect with their first call.
        except ReadModelUnavailable:
            store.close()
            raise
        return cls(name, sink, store)

    @property
    def address(self) -> str:
        return self.store.address

    def take_over(self) -> WriterEpoch:
        control = change_control(
            self.store, DocumentControl.rebuilding if self._is_beside else DocumentControl.taken_over
        )
        taken = self._own(control)
        self.store.create_place(taken.place)
        if not self._is_beside:
            self._publish()  # A swap may have been cut off before it.
        self._drop_retired()
        return taken.writer_epoch

    def apply(self, application: Application, writer_epoch: WriterEpoch) -> None:
        documents = DocumentPlace(self.store, self.require(writer_epoch).place)
        put_waiting(documents, application.waiting)
        LetterNotes(self.name, documents).store(application.dead_letters)
        self.accept(documents.put(application.changes))
        remove_reached(documents, application.changes)
        self.move(application.positions, writer_epoch)

    def open_batch(self, writer_epoch: WriterEpoch) -> DocumentBatch:
        return DocumentBatch.open(self, writer_epoch)

    def positions(self) -> dict[TopicPartition, int]:
        return self._own(read_control(self.store)).positions

    def current(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        return self._in_place(lambda documents: documents.get(aggregates))

    def waiting(self, aggregates: Sequence[Aggregate]) -> list[OutOfOrderEvent]:
        return self._in_place(lambda documents: find_waiting(documents, aggregates).events)

    def rows(self) -> Iterator[ReadModelRow]:
        decode = msgspec.json.Decoder().decode
        for kind, aggregate_id, sequence, _, state in self._scan():
            if state is not None:
                yield ReadModelRow(kind, aggregate_id, sequence, decode(state))

    def registry(self) -> Iterator[RegistryRow]:
        for change in self._scan():
            yield RegistryRow(*change[:4])

    def dead_letters(self) -> Iterator[ProjectionDeadLetter]:
        yield from self._in_place(lambda documents: LetterNotes(self.name, documents).stored())

    def redrive(self, change: Change, dead_letter_id: str, *, by: str) -> bool:
        """The mark comes second: a redrive that is cut off before it may be repeated."""
        aggregate = Aggregate(change.aggregate_type, change.aggregate_id)

        def apply(documents: DocumentPlace) -> bool:
            before = documents.get([aggregate]).get(aggregate)
            self.accept(documents.put([change]))
            LetterNotes(self.name, documents).mark(dead_letter_id, by=by)
            return before is None or before.sequence_number < change.sequence_number

        return self._in_place(apply)

    def redrive_marks(self) -> dict[str, RedriveMark]:
        with suppress(ReadModelNotFound):
            return self._in_place(lambda documents: LetterNotes(self.name, documents).marks())
        return {}

    def beside(self) -> DocumentReadModel:
        return DocumentReadModel(self.name, self.sink, self.store, is_beside=True)

    def swap(self, beside: WriterEpoch) -> None:
        def swapped(control: DocumentControl) -> DocumentControl:
            fresh = control.beside
            if fresh.epoch != beside.epoch:
                raise ProjectionFenced(self.name, epoch=beside.epoch, current=fresh.epoch)
            if not fresh.place:
                return control  # It was swapped before, and the answer was lost.
            if control.live.place:
                self._letters(control.live).carry_to(self._letters(fresh), fresh.positions)
            return control.swapped()

        change_control(self.store, swapped)
        self._publish()
        self._drop_retired()

    def close(self) -> None:
        """Closes the one beside as well: they share the store."""
        self.store.close()

    def require(self, writer_epoch: WriterEpoch) -> WrittenPlace:
        """What this run may write; raises ProjectionFenced or ReadModelSwapped."""
        return self._require(read_control(self.store), writer_epoch)

    def accept(self, refused: Sequence[RefusedChange]) -> None:
        """Raise DocumentRefused unless the target has taken everything."""
        if refused:
            change, problem = refused[0]
            named = f"{change.aggregate_type}/{change.aggregate_id} at {change.sequence_number}"
            raise DocumentRefused(self.address, aggregate=named, problem=problem, count=len(refused))

    def move(self, positions: Mapping[TopicPartition, int], writer_epoch: WriterEpoch) -> None:
        """The one step that settles a batch."""

        def moved(control: DocumentControl) -> DocumentControl:
            return self._with(control, self._require(control, writer_epoch).moved(positions))

        change_control(self.store, moved)

    def _require(self, control: DocumentControl, writer_epoch: WriterEpoch) -> WrittenPlace:
        written = self._own(control)
        if written.epoch != writer_epoch.epoch:
            raise ProjectionFenced(self.name, epoch=writer_epoch.epoch, current=written.epoch)
        if written.generation != writer_epoch.generation or not written.place:
            raise ReadModelSwapped(self.name)
        return written

    def _own(self, control: DocumentControl) -> WrittenPlace:
        return control.beside if self._is_beside else control.live

    def _with(self, control: DocumentControl, written: WrittenPlace) -> DocumentControl:
        if self._is_beside:
            return msgspec.structs.replace(control, beside=written)
        return msgspec.structs.replace(control, live=written)

    def _letters(self, written: WrittenPlace) -> LetterNotes:
        return LetterNotes(self.name, DocumentPlace(self.store, written.place))

    def _publish(self) -> None:
        """Show the live place to readers; the last one to publish has seen the last swap."""
        published = ""
        while (place := read_control(self.store).live.place) != published:
            self.store.publish_place(place)
            published = place

    def _drop_retired(self) -> None:
        retired = read_control(self.store).retired
        for place in retired:
            self.store.drop_place(place)

        def dropped(control: DocumentControl) -> DocumentControl:
            left = tuple(place for place in control.retired if place not in retired)
            return msgspec.structs.replace(control, retired=left)

        change_control(self.store, dropped)

    def _current_place(self) -> str:
        place = self._own(read_control(self.store)).place
        if not place:
            raise ReadModelNotFound(self.name, place=self.address)
        return place

    def _in_place(self, work: Callable[[DocumentPlace], _Found]) -> _Found:
        """Its result in the current place; it is repeated when a swap has replaced the place meanwhile."""
        while True:
            place = self._current_place()
            try:
                found = work(DocumentPlace(self.store, place))
            except ReadModelUnavailable:
                if self._current_place() == place:
                    raise
            else:
                if self._current_place() == place:
                    return found

    def _scan(self) -> Iterator[Change]:
        place = self._current_place()
        yield from DocumentPlace(self.store, place).scan()
        if self._current_place() != place:
            raise ReadModelUnavailable(
                self.address, cause="a rebuild has replaced it while it was read: read it again"
            )

"""Batches that Spark's tasks write as documents, and the driver's commit that moves the positions.

Tasks write documents and notes straight into the place: the newest row of each aggregate first, and an older
one only where the target has refused the newer. An attempt that no report names has therefore written as
well. That does no harm, because each document is that of an event of the topic under the sequence guard, and
it settles nothing: the position stays. What the driver needs to know of single rows is in notes, which it
reads a page at a time.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from driftq.errors import ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks.arrow_rows import CHANGES, as_table, newest, split_keyed, tuples, without_key
from driftq.sinks.documents.letters import PAGE, LetterNotes
from driftq.sinks.documents.place import DocumentPlace
from driftq.sinks.documents.port import DocumentSink, Note
from driftq.sinks.documents.waiting import find_waiting, note_id, put_waiting, remove_waiting
from driftq.sinks.port import (
    AttemptReport,
    Change,
    FindDeadLetters,
    OutOfOrderEvent,
    ProjectionDeadLetter,
    RefusedChange,
    StagedCommit,
    WriterEpoch,
)

if TYPE_CHECKING:
    from driftq.sinks.documents.model import DocumentReadModel

_ATTEMPTS, _REFUSED = "attempts", "refused"
_STATE_CHARACTERS = 100_000
"""Of a refused state in its note: the target may have refused it for its size."""
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(RefusedChange).decode
_decode_count = msgspec.json.Decoder(int).decode


class DocumentBatch:
    """One batch: its name in notes, and the right to commit it."""

    def __init__(
        self, model: DocumentReadModel, writer_epoch: WriterEpoch, writer: DocumentTaskWriter
    ) -> None:
        self._model = model
        self._writer_epoch = writer_epoch
        self.writer = writer
        self._documents = DocumentPlace(model.store, writer.place)

    @classmethod
    def open(cls, model: DocumentReadModel, writer_epoch: WriterEpoch) -> DocumentBatch:
        place = model.require(writer_epoch).place
        batch = cls(
            model, writer_epoch, DocumentTaskWriter(model.sink, model.name, place, batch=uuid.uuid4().hex)
        )
        batch._clean()
        return batch

    def commit(self, commit: StagedCommit) -> None:
        self._model.require(self._writer_epoch)
        self._require_finished(commit.reports)
        letters = LetterNotes(self._model.name, self._documents)
        for refused in self._refused(commit.reports):
            letters.store(self._find(refused, commit.find_dead_letters))
        letters.publish(commit.publish_dead_letters)
        letters.store(commit.dead_letters)
        self._model.move(commit.positions, self._writer_epoch)
        with suppress(ReadModelUnavailable):  # The batch is settled; the next one removes its notes.
            self._clean()

    def _require_finished(self, reports: Sequence[AttemptReport]) -> None:
        """A target that has lost what it stored last has lost this note of an attempt as well."""
        expected = {self.writer.attempt_id(report.task, report.attempt) for report in reports}
        found = {note.id for note in self._documents.notes_of(_ATTEMPTS, expected)}
        if lost := expected - found:
            raise ReadModelUnavailable(
                self._model.address, cause=f"it has lost what {len(lost)} of {len(expected)} tasks stored"
            )

    def _refused(self, reports: Sequence[AttemptReport]) -> Iterator[list[RefusedChange]]:
        """What these attempts could not store, a page at a time."""
        attempts = [
            self.writer.attempt_id(report.task, report.attempt)
            for report in reports
            if _decode_count(report.detail)
        ]
        found = map(_decode, (note.text for note in self._documents.notes_of(_REFUSED, attempts)))
        while page := list(islice(found, PAGE)):
            yield page

    def _find(
        self, refused: Sequence[RefusedChange], find: FindDeadLetters | None
    ) -> Iterable[ProjectionDeadLetter]:
        if find is None:
            self._model.accept(refused)
            return ()
        return find(refused)

    def _clean(self) -> None:
        """Remove the notes of this batch and of those before. A run that still needs them is fenced."""
        for kind in (_ATTEMPTS, _REFUSED):
            while page := [note.id for note in islice(self._documents.notes(kind), PAGE)]:
                self._documents.remove_notes(kind, page)


@dataclass(frozen=True, slots=True)
class DocumentTaskWriter:
    """Begins attempts at one batch."""

    sink: DocumentSink
    projection: str
    place: str
    batch: str

    def begin(self, *, task: int, attempt: int) -> DocumentAttempt:
        return DocumentAttempt(self, task=task, attempt=attempt)

    def attempt_id(self, task: int, attempt: int) -> str:
        return f"{self.batch}-{task}-{attempt}"


class DocumentAttempt:
    """One attempt, over a connection of its own."""

    def __init__(self, writer: DocumentTaskWriter, *, task: int, attempt: int) -> None:
        self._writer = writer
        self._task = task
        self._attempt = attempt
        self._id = writer.attempt_id(task, attempt)
        self._opened: DocumentPlace | None = None
        self._changes = 0
        self._waiting = 0
        self._dead_letters = 0
        self._refused = 0
        self._reached: list[str] = []
        self._found: list[OutOfOrderEvent] = []

    def current(self, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        return self._documents.get(aggregates)

    def waiting(self, aggregates: Sequence[Aggregate]) -> list[OutOfOrderEvent]:
        found = find_waiting(self._documents, aggregates)
        self._reached += found.reached
        self._found += found.events
        return found.events

    def write_changes(self, changes: pa.Table) -> None:
        self._changes += changes.num_rows
        rows, others = split_keyed(changes)
        self._refuse(without_key(others))
        while rows.num_rows:
            first = newest(rows)
            refused = self._documents.put(Change(*row) for row in tuples(first))
            self._refuse(refused)
            rows = _older(rows, refused)

    def write_waiting(self, events: Sequence[OutOfOrderEvent]) -> None:
        put_waiting(self._documents, events)
        self._waiting += len(events)

    def write_dead_letters(self, dead_letters: Sequence[ProjectionDeadLetter]) -> None:
        LetterNotes(self._writer.projection, self._documents).note_unpublished(dead_letters)
        self._dead_letters += len(dead_letters)

    def finish(self) -> AttemptReport:
        self._remove_reached()
        self._documents.put_notes([Note(_ATTEMPTS, self._id, self._id, "{}")])
        return AttemptReport(
            self._task,
            self._attempt,
            changes=self._changes,
            waiting=self._waiting,
            dead_letters=self._dead_letters,
            detail=_encode(self._refused),
        )

    def close(self) -> None:
        if self._opened is not None:
            self._opened.store.close()
            self._opened = None

    @property
    def _documents(self) -> DocumentPlace:
        if self._opened is None:
            store = self._writer.sink.open_store(self._writer.projection)
            self._opened = DocumentPlace(store, self._writer.place)
        return self._opened

    def _refuse(self, refused: Iterable[RefusedChange]) -> None:
        first = self._refused
        notes = [
            Note(_REFUSED, self._id, f"{self._id}-{number:010}", _encode(_short(each)).decode())
            for number, each in enumerate(refused, first)
        ]
        if notes:
            self._documents.put_notes(notes)
            self._refused += len(notes)

    def _remove_reached(self) -> None:
        """Of the waiting events that this attempt has read, those that are applied now."""
        if self._found:
            aggregates = [Aggregate(event[0], event[1]) for event in self._found]
            rows = self._documents.get(aggregates)
            self._reached += [
                note_id(event)
                for event, aggregate in zip(self._found, aggregates, strict=True)
                if aggregate in rows and event.sequence_number <= rows[aggregate].sequence_number
            ]
        remove_waiting(self._documents, self._reached)


def _older(rows: pa.Table, refused: Sequence[RefusedChange]) -> pa.Table:
    """The rows of these aggregates before those that were refused."""
    if not refused:
        return rows.slice(0, 0)
    ends = {each.change[:2]: each.change.sequence_number for each in refused}
    return as_table([row for row in tuples(rows) if row[2] < ends.get(row[:2], 0)], CHANGES)


def _short(refused: RefusedChange) -> RefusedChange:
    state = refused.change.state
    if state is None or len(state) <= _STATE_CHARACTERS:
        return refused
    return refused._replace(change=refused.change._replace(state=None))

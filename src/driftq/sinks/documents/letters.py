"""Dead letters of a read model of documents, and their redrive marks, as notes by dead-letter id.

A task notes its dead letters as unpublished before it writes documents; the driver publishes and stores them
before the position moves. The note counts even if its attempt dies: an ordered fold that has given an event
up stores a document without it, and no later attempt comes past that event again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

import msgspec

from driftq.sinks.dead_letters import BY_REBUILD, RedriveMark, dead_letter_id_of, storable_dead_letter
from driftq.sinks.documents.place import DocumentPlace
from driftq.sinks.documents.port import Note
from driftq.sinks.marks import is_behind
from driftq.sinks.port import ProjectionDeadLetter, PublishDeadLetters, TopicPartition

PAGE = 500
"""Dead letters in the driver's memory."""
_STORED, _UNPUBLISHED, _MARKS = "dead_letters", "unpublished", "marks"


class NotedLetter(msgspec.Struct, frozen=True):
    """A dead letter in a note."""

    dead: ProjectionDeadLetter
    is_carried: bool = False
    """Whether a rebuild has carried it over, as opposed to giving the event up itself."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(NotedLetter).decode
_decode_mark = msgspec.json.Decoder(RedriveMark).decode


class LetterNotes:
    """The dead letters of one projection in one place."""

    def __init__(self, projection: str, documents: DocumentPlace) -> None:
        self._projection = projection
        self._documents = documents

    def store(self, dead_letters: Iterable[ProjectionDeadLetter]) -> None:
        """Of equal ones the first counts."""
        for page in pages(self._by_id(dead_letters)):
            known = self._stored(page)
            self._put(_STORED, {id: NotedLetter(dead) for id, dead in page if id not in known})

    def stored(self) -> list[ProjectionDeadLetter]:
        """By topic, partition and offset."""
        found = [_decode(note.text).dead for note in self._documents.notes(_STORED)]
        return sorted(found, key=lambda dead: (*dead[:3], dead.identity, dead.stage))

    def note_unpublished(self, dead_letters: Iterable[ProjectionDeadLetter]) -> None:
        for page in pages(self._by_id(dead_letters)):
            self._put(_UNPUBLISHED, {id: NotedLetter(dead) for id, dead in page})

    def publish(self, publish: PublishDeadLetters | None) -> None:
        """Publish and store those that tasks have noted, a page at a time."""
        while page := list(islice(self._documents.notes(_UNPUBLISHED), PAGE)):
            letters = {note.id: _decode(note.text) for note in page}
            known = self._stored(letters.items())
            fresh = {id: letter for id, letter in letters.items() if id not in known}
            if fresh and publish is not None:
                publish([letter.dead for letter in fresh.values()])
            self._put(_STORED, fresh)
            self._documents.remove_notes(_UNPUBLISHED, letters)

    def mark(self, id: str, *, by: str) -> None:
        self._put_marks({id: RedriveMark(_now(), by)})

    def marks(self) -> dict[str, RedriveMark]:
        return {note.id: _decode_mark(note.text) for note in self._documents.notes(_MARKS)}

    def carry_to(self, fresh: LetterNotes, reached: Mapping[TopicPartition, int]) -> None:
        """Copy them to the place of a rebuild, which has reached these positions, with their marks.

        The rebuild has applied what it has read and not given up again. May be repeated.
        """
        for page in pages((note.id, _decode(note.text).dead) for note in self._documents.notes(_STORED)):
            ids = [id for id, _ in page]
            given_up = {id for id, letter in fresh._stored(page).items() if not letter.is_carried}
            marks = {
                note.id: _decode_mark(note.text)
                for note in self._documents.notes_of(_MARKS, ids)
                if note.id not in given_up
            }
            for id, dead in page:
                if id not in given_up and is_behind(reached, dead):
                    marks.setdefault(id, RedriveMark(_now(), BY_REBUILD))
            fresh._put(
                _STORED, {id: NotedLetter(dead, is_carried=True) for id, dead in page if id not in given_up}
            )
            fresh._put_marks(marks)

    def _by_id(
        self, dead_letters: Iterable[ProjectionDeadLetter]
    ) -> Iterator[tuple[str, ProjectionDeadLetter]]:
        for dead in dead_letters:
            yield dead_letter_id_of(self._projection, dead), storable_dead_letter(dead)

    def _stored(self, page: Iterable[tuple[str, object]]) -> dict[str, NotedLetter]:
        """Those of a page that are stored."""
        found = self._documents.notes_of(_STORED, (id for id, _ in page))
        return {note.id: _decode(note.text) for note in found}

    def _put(self, kind: str, letters: Mapping[str, NotedLetter]) -> None:
        self._documents.put_notes(
            Note(kind, id, id, _encode(letter).decode()) for id, letter in letters.items()
        )

    def _put_marks(self, marks: Mapping[str, RedriveMark]) -> None:
        self._documents.put_notes(Note(_MARKS, id, id, _encode(mark).decode()) for id, mark in marks.items())


def pages(
    letters: Iterable[tuple[str, ProjectionDeadLetter]],
) -> Iterator[Sequence[tuple[str, ProjectionDeadLetter]]]:
    rest = iter(letters)
    while page := list(islice(rest, PAGE)):
        yield page


def _now() -> int:
    return time.time_ns() // 1_000_000

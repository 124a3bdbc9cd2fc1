"""A document store in TerminusDB: batches of guarded documents, control texts by compare-and-set, notes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from driftq.model import Aggregate
from driftq.sinks.documents.port import ControlText, Note
from driftq.sinks.port import Change, RefusedChange
from driftq.sinks.terminusdb import woql
from driftq.sinks.terminusdb.places import Places, read_documents, unless
from driftq.sinks.terminusdb.schema import CONTROL, ProjectionSchema, control_classes
from driftq.sinks.terminusdb.server import TerminusRefusal, TerminusServer

CONTROL_BRANCH = "driftq_control"
_PAGE = 500
_TRIES = 3
_RACED = frozenset({"DocumentIdAlreadyExists", "DocumentNotFound"})
"""Another writer was faster between the condition and the commit; the same query decides again."""
_T = TypeVar("_T")


class TerminusStore:
    """One projection in one database."""

    def __init__(self, server: TerminusServer, projection: str, *, batch_documents: int) -> None:
        self._server = server
        self._schema = ProjectionSchema(projection)
        self._places = Places(server, self._schema)
        self._batch = batch_documents

    @property
    def address(self) -> str:
        return str(self._server.address)

    # Control texts: a branch of their own, so that publishing a place takes none of them back.

    def read_control(self, name: str) -> ControlText | None:
        found = self._settled(
            lambda: read_documents(self._server, CONTROL_BRANCH, [self._schema.control_id(name)])
        )
        return ControlText(found[0]["text"], str(found[0]["version"])) if found else None

    def write_control(self, name: str, text: str, *, expected: str | None) -> bool:
        document: woql.Fields = {
            "@type": CONTROL,
            "@id": self._schema.control_id(name),
            # Unique, so that only a run that has read the stored text can replace it.
            "version": secrets.randbits(62),
            "text": text,
        }
        if expected is None:
            query = woql.insert_if_absent(document, field="version", variable="v")
        else:
            query = woql.replace_if_equal(document, field="version", value=int(expected), variable="v")
        return self._settled(lambda: self._write_control(query, name))

    def _write_control(self, query: woql.Woql, name: str) -> bool:
        try:
            answer, _ = self._server.query(CONTROL_BRANCH, query, message=f"control {name}")
        except TerminusRefusal as refusal:
            if refusal.kind in _RACED:
                return False
            self._create_control_branch()  # It is missing, or a run was killed while it created it.
            answer, _ = self._server.query(CONTROL_BRANCH, query, message=f"control {name}")
        return bool(answer["bindings"])

    def _create_control_branch(self) -> None:
        server, classes = self._server, control_classes()
        unless("BranchExistsError", lambda: server.create_branch(CONTROL_BRANCH))
        unless(
            "DocumentIdAlreadyExists",
            lambda: server.insert(CONTROL_BRANCH, classes, message="control", schema=True),
        )

    # Places.

    def create_place(self, place: str) -> None:
        self._settled(lambda: self._places.create(place))

    def publish_place(self, place: str) -> None:
        self._settled(lambda: self._places.publish(place))

    def drop_place(self, place: str) -> None:
        self._settled(lambda: self._places.drop(place))

    # Documents.

    def put(self, place: str, changes: Sequence[Change]) -> list[RefusedChange]:
        newest: dict[Aggregate, Change] = {}
        for change in changes:  # The server refuses a commit that writes a document twice.
            aggregate = Aggregate(change.aggregate_type, change.aggregate_id)
            stored = newest.get(aggregate)
            if stored is None or stored.sequence_number < change.sequence_number:
                newest[aggregate] = change
        refused: list[RefusedChange] = []
        storable: list[Change] = []
        for change in newest.values():
            try:
                "".join(text for text in change if isinstance(text, str)).encode()
            except UnicodeEncodeError as error:
                refused.append(RefusedChange(change, f"its text is not Unicode ({error.reason})"))
            else:
                storable.append(change)
        for page in _pages(storable, self._batch):
            refused += self._put(place, page)
        return refused

    def _put(self, place: str, changes: Sequence[Change]) -> list[RefusedChange]:
        """In one commit; of a commit that is refused each half by itself, down to what is to blame."""
        parts = [
            woql.upsert_if_newer(
                self._schema.document_of(change),
                field="sequence",
                value=change.sequence_number,
                variable=f"s{number}",
            )
            for number, change in enumerate(changes)
        ]
        try:
            self._write(place, parts, message=f"{len(changes)} documents")
        except TerminusRefusal as refusal:
            if not _blames_documents(refusal):
                raise self._server.unavailable(str(refusal)) from refusal
            if len(changes) == 1:
                self._settled(lambda: self._places.write(place, (), message="probe"))  # It works otherwise.
                return [RefusedChange(changes[0], str(refusal))]
        else:
            return []
        half = len(changes) // 2
        return self._put(place, changes[:half]) + self._put(place, changes[half:])

    def get(self, place: str, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        wanted = []
        for aggregate in aggregates:
            try:
                wanted.append(self._schema.document_id(aggregate))
            except UnicodeEncodeError:
                pass  # Never stored: `put` refuses it.
        found: dict[Aggregate, Change] = {}
        for page in _pages(wanted, _PAGE):
            for document in self._read(place, page):
                found[self._schema.aggregate_of(document["@id"])] = self._schema.change_of(document)
        return found

    def scan(self, place: str) -> Iterator[Change]:
        query = woql.each_of_class(self._schema.documents, subject="d")
        ids = [found["d"] for found in self._bindings(place, query)]
        ids.sort(key=self._schema.aggregate_of)
        for page in _pages(ids, _PAGE):
            found = {document["@id"]: document for document in self._read(place, page)}
            yield from (self._schema.change_of(found[one]) for one in page if one in found)

    # Notes.

    def put_notes(self, place: str, notes: Sequence[Note]) -> None:
        newest = {(note.kind, note.id): note for note in notes}
        for page in _pages(list(newest.values()), self._batch):
            parts = [
                woql.upsert(self._schema.note_document(note), field="text", variable=f"t{number}")
                for number, note in enumerate(page)
            ]
            try:
                self._write(place, parts, message=f"{len(parts)} notes")
            except TerminusRefusal as refusal:
                raise self._server.unavailable(str(refusal)) from refusal

    def notes(self, place: str, kind: str, *, groups: Sequence[str] | None = None) -> Iterator[Note]:
        wanted = None if groups is None else set(groups)
        query = woql.each_with("group", subject="n", variable="g")
        ids = []
        for found in self._bindings(place, query):
            its_kind, name = self._schema.note_name(found["n"])
            if its_kind == kind and (wanted is None or found["g"]["@value"] in wanted):
                ids.append((name, found["n"]))
        for page in _pages([document_id for _, document_id in sorted(ids)], _PAGE):
            documents = {document["@id"]: document for document in self._read(place, page)}
            yield from (self._schema.note_of(documents[one]) for one in page if one in documents)

    def remove_notes(self, place: str, kind: str, ids: Iterable[str]) -> None:
        wanted = [self._schema.note_id(kind, note) for note in dict.fromkeys(ids)]
        for page in _pages(wanted, _PAGE):
            self._settled(partial(self._places.delete, place, page, message=f"remove {len(page)} notes"))

    def close(self) -> None:
        """Every call had a connection of its own."""

    # What they share.

    def _write(self, place: str, parts: Sequence[woql.Woql], *, message: str) -> None:
        for left in reversed(range(_TRIES)):
            try:
                variables = self._places.write(place, woql.each_by_itself(parts), message=message)
            except TerminusRefusal as refusal:
                if refusal.kind not in _RACED:
                    raise
                if not left:
                    raise self._server.unavailable(str(refusal)) from refusal
            else:
                if variables != len(parts):
                    raise self._server.unavailable("it answered a write without all of its documents")
                return

    def _read(self, place: str, ids: Sequence[str]) -> list[dict[str, Any]]:
        return self._settled(lambda: self._places.read(place, ids))

    def _bindings(self, place: str, query: woql.Woql) -> list[dict[str, Any]]:
        answer, _ = self._settled(
            lambda: self._places.call(place, lambda branch: self._server.query(branch, query))
        )
        return list(answer["bindings"])

    def _settled(self, call: Callable[[], _T]) -> _T:
        """A refusal that its call does not expect: the database has changed under us, or is another."""
        try:
            return call()
        except TerminusRefusal as refusal:
            raise self._server.unavailable(str(refusal)) from refusal


def _blames_documents(refusal: TerminusRefusal) -> bool:
    """Whether a part of the batch could be stored by itself."""
    if refusal.status not in (400, 413):
        return False
    witnesses = refusal.error.get("api:witnesses")
    named = [witness.get("@type") for witness in witnesses] if isinstance(witnesses, list) else []
    return not named or any(name != "ascribed_type_does_not_exist" for name in named)


def _pages(things: Sequence[_T], size: int) -> Iterator[list[_T]]:
    rest = iter(things)
    while page := list(islice(rest, size)):
        yield page

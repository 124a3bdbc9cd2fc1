"""The classes of a projection, and its documents, notes and marks as TerminusDB stores them.

A projection `order_totals` has documents of the class `OrderTotals`, notes of `OrderTotalsNote`, and one
document of `OrderTotalsPlace`, the mark of their place. A document without a state is a tombstone.
Ids have letters, digits and underscores only, so that nothing between here and the store rewrites them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from driftq.model import Aggregate
from driftq.sinks.documents.port import Note
from driftq.sinks.port import Change
from driftq.sinks.terminusdb.woql import Fields

_OPTIONAL_TEXT = {"@type": "Optional", "@class": "xsd:string"}
_OTHER = re.compile(rb"[^A-Za-z0-9]")
_ESCAPED = re.compile(rb"_([0-9a-f]{2})")
_BETWEEN = "__"

CONTROL = "DriftqControl"
OPEN, PUBLISHED = 1, 2
"""What the mark of a place says: whether readers see it."""


class ProjectionSchema:
    """The names of one projection's classes and ids."""

    def __init__(self, projection: str) -> None:
        self._projection = projection
        self.documents = "".join(word.capitalize() for word in projection.split("_"))
        self.note_class = f"{self.documents}Note"
        self.place_class = f"{self.documents}Place"

    def classes(self) -> list[dict[str, Any]]:
        return [
            {
                "@type": "Class",
                "@id": self.documents,
                "aggregate_type": "xsd:string",
                "aggregate_id": "xsd:string",
                "sequence": "xsd:integer",
                "event_id": "xsd:string",
                "state": _OPTIONAL_TEXT,
            },
            {
                "@type": "Class",
                "@id": self.note_class,
                "kind": "xsd:string",
                "group": "xsd:string",
                "name": "xsd:string",
                "text": "xsd:string",
            },
            {"@type": "Class", "@id": self.place_class, "name": "xsd:string", "published": "xsd:integer"},
        ]

    # Documents.

    def document_id(self, aggregate: Aggregate) -> str:
        """Raises UnicodeEncodeError for a text that is not Unicode."""
        return f"{self.documents}/{_joined(aggregate.type, aggregate.id)}"

    def aggregate_of(self, document_id: str) -> Aggregate:
        kind, name = _parts(document_id)
        return Aggregate(kind, name)

    def document_of(self, change: Change) -> Fields:
        fields: dict[str, str | int] = {
            "@type": self.documents,
            "@id": self.document_id(Aggregate(change.aggregate_type, change.aggregate_id)),
            "aggregate_type": change.aggregate_type,
            "aggregate_id": change.aggregate_id,
            "sequence": change.sequence_number,
            "event_id": change.event_id,
        }
        return fields if change.state is None else {**fields, "state": change.state}

    def change_of(self, document: Mapping[str, Any]) -> Change:
        return Change(
            document["aggregate_type"],
            document["aggregate_id"],
            int(document["sequence"]),
            document["event_id"],
            document.get("state"),
        )

    # Notes.

    def note_id(self, kind: str, note: str) -> str:
        return f"{self.note_class}/{_joined(kind, note)}"

    def note_name(self, document_id: str) -> tuple[str, str]:
        """Kind and id of a note."""
        kind, note = _parts(document_id)
        return kind, note

    def note_document(self, note: Note) -> Fields:
        return {
            "@type": self.note_class,
            "@id": self.note_id(note.kind, note.id),
            "kind": note.kind,
            "group": note.group,
            "name": note.id,
            "text": note.text,
        }

    def note_of(self, document: Mapping[str, Any]) -> Note:
        return Note(document["kind"], document["group"], document["name"], document["text"])

    # Places.

    @property
    def readers_branch(self) -> str:
        return self._projection

    def place_branch(self, place: str) -> str:
        """No projection has two underscores in its name, so this is none of theirs."""
        return f"{self._projection}{_BETWEEN}{_escape(place)}"

    def mark_id(self, place: str) -> str:
        return f"{self.place_class}/{_escape(place)}"

    def mark(self, place: str, published: int) -> dict[str, Any]:
        return {
            "@type": self.place_class,
            "@id": self.mark_id(place),
            "name": place,
            "published": published,
        }

    # Control texts.

    def control_id(self, name: str) -> str:
        return f"{CONTROL}/{_joined(self._projection, name)}"


def control_classes() -> list[dict[str, Any]]:
    return [{"@type": "Class", "@id": CONTROL, "version": "xsd:integer", "text": "xsd:string"}]


def _joined(*texts: str) -> str:
    return _BETWEEN.join(_escape(text) for text in texts)


def _parts(document_id: str) -> list[str]:
    return [_plain(part) for part in document_id.partition("/")[2].split(_BETWEEN)]


def _escape(text: str) -> str:
    """An underscore always has two digits after it, so two of them stand only between parts."""
    return _OTHER.sub(lambda found: b"_%02x" % found[0][0], text.encode()).decode()


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), text.encode()).decode()

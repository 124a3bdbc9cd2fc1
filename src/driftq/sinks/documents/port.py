"""The port to a document store: what a target must offer to hold read models.

A search index or a cache has no transaction over many documents. Three promises are enough instead:

- A document is stored by compare-and-set on its sequence. An older or equal one changes nothing, whoever
  writes it and however late. A deletion leaves a tombstone that keeps the sequence.
- A control text is stored by compare-and-set on its version. It holds the writer's epoch, the generation and
  the positions, and it is written after the result of every document is known.
- Notes are plain texts by id: out-of-order events, dead letters and redrive marks.

`DocumentReadModel` makes a read model of these: it has every rule, a store has none. A repeated, late or
abandoned batch writes documents that are already there, and only a run whose control text is current moves
the positions.

Documents live in a place: an index, a key prefix, a class. A rebuild fills a second place and then publishes
it. No rebuild uses the place of an earlier one, so an abandoned rebuild cannot write into its successor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from driftq.model import Aggregate
from driftq.sinks.port import Capabilities, Change, RefusedChange

__all__ = ["CALL_MAX", "Capabilities", "ControlText", "DocumentSink", "DocumentStore", "Note"]

CALL_MAX = 1_000
"""No call names more documents, notes, groups or ids than this."""


class ControlText(NamedTuple):
    """A stored control text and its version, which the store alone understands."""

    text: str
    version: str


class Note(NamedTuple):
    """A text with an id. `group` is what notes of a kind are looked up by, such as an aggregate.

    Kind, group and id are at most 200 characters of `a-z A-Z 0-9 . _ -`; the text is any JSON.
    """

    kind: str
    group: str
    id: str
    """Unique among the notes of its kind. A second note with the same id replaces the first."""
    text: str


class DocumentStore(Protocol):
    """One projection's documents in one target, over one connection of its own.

    Every method raises ReadModelUnavailable when the target is unreachable, overloaded or restarting, and
    returns when the target has stored what it was given. After an error any part of it may be stored.

    A late run may name a place that was dropped. Then `put` and `put_notes` raise ReadModelUnavailable and do
    not create it; `get`, `scan` and `notes` find nothing or raise ReadModelUnavailable; `remove_notes` has
    nothing to do.
    """

    @property
    def address(self) -> str:
        """For display, without a password."""

    def read_control(self, name: str) -> ControlText | None: ...

    def write_control(self, name: str, text: str, *, expected: str | None) -> bool:
        """Store it if the stored version is `expected`, None for an absent one; False if it is another."""

    def create_place(self, place: str) -> None:
        """Prepare an empty place; one that exists stays as it is. Its name is 32 characters of `a-f 0-9`."""

    def publish_place(self, place: str) -> None:
        """Show this place to readers that know only the projection's name, and no other, in one step.

        An absent one changes nothing: another run has published its successor.
        """

    def drop_place(self, place: str) -> None:
        """Remove its documents and its notes; an absent one counts as removed."""

    def put(self, place: str, changes: Sequence[Change]) -> list[RefusedChange]:
        """Store each change whose sequence is above that of its document; the result names what was refused.

        At most one change for each aggregate. A change whose sequence is not above counts as stored. Refused
        is what the target will never take; an overload is a ReadModelUnavailable.
        """

    def get(self, place: str, aggregates: Sequence[Aggregate]) -> dict[Aggregate, Change]:
        """These documents as they are now, tombstones too."""

    def scan(self, place: str) -> Iterator[Change]:
        """Every document that was stored before the call, tombstones too, by type and id as UTF-8 bytes.

        As with `notes`, other methods may be called while it is read.
        """

    def put_notes(self, place: str, notes: Sequence[Note]) -> None: ...

    def notes(self, place: str, kind: str, *, groups: Sequence[str] | None = None) -> Iterator[Note]:
        """The notes of a kind as they are now, by id; of these groups only, or of all."""

    def remove_notes(self, place: str, kind: str, ids: Iterable[str]) -> None:
        """Unknown ids are ignored."""

    def close(self) -> None: ...


class DocumentSink(Protocol):
    """The target of document stores. Plain values: it travels to Spark's tasks.

    A projection takes it as its sink when it has `connect` as well:

        def connect(self, projection: str) -> DocumentReadModel:
            return DocumentReadModel.open(self, projection)
    """

    @property
    def capabilities(self) -> Capabilities: ...

    def open_store(self, projection: str) -> DocumentStore:
        """Raises InvalidArgument for a target that cannot keep the promises, and a ReadModelUnavailable."""

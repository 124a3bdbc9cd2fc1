"""One place of a document store, in calls of bounded size, with the rules that hold for every target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import msgspec

from driftq.model import Aggregate
from driftq.sinks.documents.port import CALL_MAX, DocumentStore, Note
from driftq.sinks.port import Change, RefusedChange

_CALL_CHARACTERS = 8 << 20
_Item = TypeVar("_Item", bound=tuple[object, ...])
_check_json = msgspec.json.Decoder(msgspec.Raw).decode


class DocumentPlace:
    """The documents and notes of one place."""

    def __init__(self, store: DocumentStore, place: str) -> None:
        self.store = store
        self._place = place

    def put(self, changes: Iterable[Change]) -> list[RefusedChange]:
        """Store what is newer; at most one of each aggregate. Returns what cannot be stored."""
        refused: list[RefusedChange] = []
        for part in calls(changes):
            fit: list[Change] = []
            for change in part:
                problem = _problem(change)
                if problem is None:
                    fit.append(change)
                else:
                    refused.append(RefusedChange(change, problem))
            if fit:
                refused += self.store.put(self._place, fit)
        return refused

    def get(self, aggregates: Iterable[Aggregate]) -> dict[Aggregate, Change]:
        found: dict[Aggregate, Change] = {}
        for part in calls(dict.fromkeys(aggregates)):
            found |= self.store.get(self._place, part)
        return found

    def scan(self) -> Iterator[Change]:
        return self.store.scan(self._place)

    def put_notes(self, notes: Iterable[Note]) -> None:
        for part in calls(notes):
            self.store.put_notes(self._place, part)

    def notes(self, kind: str) -> Iterator[Note]:
        return self.store.notes(self._place, kind)

    def notes_of(self, kind: str, groups: Iterable[str]) -> Iterator[Note]:
        """Those of these groups, by id within each call."""
        for part in calls((group,) for group in dict.fromkeys(groups)):
            yield from self.store.notes(self._place, kind, groups=[group for (group,) in part])

    def remove_notes(self, kind: str, ids: Iterable[str]) -> None:
        for part in calls((id,) for id in ids):
            self.store.remove_notes(self._place, kind, [id for (id,) in part])


def calls(items: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Lists that are small enough for one call each."""
    held: list[_Item] = []
    size = 0
    for item in items:
        length = sum(len(value) for value in item if isinstance(value, str))
        if held and (len(held) == CALL_MAX or size + length > _CALL_CHARACTERS):
            yield held
            held, size = [], 0
        held.append(item)
        size += length
    if held:
        yield held


def _problem(change: Change) -> str | None:
    """Why no target may store it: readers could not decode it."""
    if change.state is None:
        return None
    try:
        _check_json(change.state)
    except (ValueError, RecursionError) as error:
        return f"the state is not JSON: {error}"
    return None

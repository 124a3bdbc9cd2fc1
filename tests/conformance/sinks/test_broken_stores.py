"""The suite finds what is wrong: each of these stores breaks one promise, and a test of the suite fails."""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from driftq.sinks import Change, RefusedChange
from driftq.sinks.documents import DocumentStore
from driftq.testing.sinks import DocumentBatchesSuite, DocumentStoresSuite
from driftq.testing.sinks.connected import NAME
from driftq.testing.sinks.document_stores import new_place
from examples.custom_sink import PUT, KeyValueSink, KeyValueStore


class WithoutGuard(KeyValueStore):
    """The last writer wins."""

    def put(self, place: str, changes: Sequence[Change]) -> list[RefusedChange]:
        with self._writing(place):
            self._file.executemany(PUT.split("WHERE")[0], [(place, *change) for change in changes])
        return []


class ForgetsDeletions(KeyValueStore):
    """A deleted document is gone, with its sequence."""

    def put(self, place: str, changes: Sequence[Change]) -> list[RefusedChange]:
        refused = super().put(place, changes)
        with self._transaction():
            self._file.execute("DELETE FROM documents WHERE place = ? AND state IS NULL", (place,))
        return refused


class DropsTheLast(KeyValueStore):
    """It says that it has stored everything."""

    def put(self, place: str, changes: Sequence[Change]) -> list[RefusedChange]:
        return super().put(place, changes[:-1] or changes)


class BelievesEveryWriter(KeyValueStore):
    """The version of a control text is not compared."""

    def write_control(self, name: str, text: str, *, expected: str | None) -> bool:
        found = self.read_control(name)
        return super().write_control(name, text, expected=found.version if found else None)


class BringsPlacesBack(KeyValueStore):
    """A write creates the place that it names."""

    def put(self, place: str, changes: Sequence[Change]) -> list[RefusedChange]:
        self.create_place(place)
        return super().put(place, changes)


class KeepsNotes(KeyValueStore):
    """Notes outlive their place."""

    def drop_place(self, place: str) -> None:
        with self._transaction():
            for table in ("documents", "places"):
                self._file.execute(f"DELETE FROM {table} WHERE place = ?", (place,))


class RemovesNothing(KeyValueStore):
    def remove_notes(self, place: str, kind: str, ids: Iterable[str]) -> None:
        list(ids)


@dataclass(frozen=True)
class BrokenSink(KeyValueSink):
    store: type[KeyValueStore] = KeyValueStore

    def open_store(self, projection: str) -> KeyValueStore:
        return self.store(f"{self.folder}/{projection}.db", projection)


Test = Callable[[BrokenSink, DocumentStore, str], None]
STORES = DocumentStoresSuite()
TESTS: dict[type[KeyValueStore], Test] = {
    WithoutGuard: lambda _, store, place: STORES.test_a_document_is_stored_if_its_sequence_is_above(
        store, place
    ),
    ForgetsDeletions: lambda _, store, place: (
        STORES.test_a_deletion_leaves_a_tombstone_that_keeps_the_sequence(store, place)
    ),
    DropsTheLast: lambda sink, _, __: DocumentBatchesSuite().test_a_writer_may_stop_at_any_call(sink),
    BelievesEveryWriter: lambda sink, _, __: DocumentBatchesSuite().test_a_run_may_be_replaced_at_any_call(
        sink
    ),
    BringsPlacesBack: lambda sink, store, place: (
        STORES.test_a_late_writer_does_not_bring_back_a_place_that_was_dropped(
            store, place, lambda: sink.open_store(NAME)
        )
    ),
    KeepsNotes: lambda sink, store, place: (
        STORES.test_a_late_writer_does_not_bring_back_a_place_that_was_dropped(
            store, place, lambda: sink.open_store(NAME)
        )
    ),
    RemovesNothing: lambda _, store, place: STORES.test_notes_are_replaced_found_by_group_and_removed_by_id(
        store, place
    ),
}


@pytest.mark.clause("V9")
@pytest.mark.parametrize("store", TESTS, ids=lambda store: store.__name__)
def test_a_broken_store_is_found(store: type[KeyValueStore], tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder, kind in ((whole, KeyValueStore), (broken, store)):
        folder.mkdir()
        sink = BrokenSink(os.fspath(folder), kind)
        opened = sink.open_store(NAME)
        place = new_place(opened)
        if kind is KeyValueStore:
            TESTS[store](sink, opened, place)
        else:
            with pytest.raises((AssertionError, pytest.fail.Exception)):
                TESTS[store](sink, opened, place)
        opened.close()

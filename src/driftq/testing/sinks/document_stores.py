"""A document store by itself: compare-and-set, places and notes."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from random import Random
from uuid import uuid4

import pytest

from driftq.errors import ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks import Change
from driftq.sinks.documents import CALL_MAX, DocumentSink, DocumentStore, Note
from driftq.testing.sinks.cast import change
from driftq.testing.sinks.connected import NAME

Open = Callable[[], DocumentStore]
"""Another connection to the same documents."""
ORDER = Aggregate("order", "o-1")


class DocumentStoresSuite:
    """The promises of `driftq.sinks.documents.port`, one by one."""

    @pytest.fixture
    def open_store(self, sink: DocumentSink) -> Iterator[Open]:
        opened: list[DocumentStore] = []

        def open_one() -> DocumentStore:
            travelled: DocumentSink = pickle.loads(pickle.dumps(sink))
            opened.append(travelled.open_store(NAME))
            return opened[-1]

        yield open_one
        for store in opened:
            store.close()

    @pytest.fixture
    def store(self, open_store: Open) -> DocumentStore:
        return open_store()

    @pytest.fixture
    def place(self, store: DocumentStore) -> str:
        return new_place(store)

    def test_a_control_text_is_stored_by_compare_and_set(
        self, store: DocumentStore, open_store: Open
    ) -> None:
        other = open_store()
        assert store.read_control("control") is None
        assert not store.write_control("control", "{}", expected="1")
        assert store.write_control("control", '{"é":1}', expected=None)
        assert not other.write_control("control", "{}", expected=None)
        first = other.read_control("control")
        assert first is not None
        assert first.text == '{"é":1}'
        assert other.write_control("control", '{"at":2}', expected=first.version)
        assert not store.write_control("control", '{"at":3}', expected=first.version)
        second = store.read_control("control")
        assert second is not None
        assert (second.text, second.version != first.version) == ('{"at":2}', True)

    def test_of_concurrent_writers_of_a_control_text_each_sees_the_others(self, open_store: Open) -> None:
        stores = [open_store() for _ in range(3)]

        def count(store: DocumentStore) -> None:
            for _ in range(10):
                while True:
                    found = store.read_control("control")
                    text = str(int(found.text) + 1 if found else 1)
                    if store.write_control("control", text, expected=found.version if found else None):
                        break

        in_threads([partial(count, store) for store in stores])
        found = stores[0].read_control("control")
        assert found is not None
        assert found.text == "30"

    def test_a_document_is_stored_if_its_sequence_is_above(self, store: DocumentStore, place: str) -> None:
        for sequence, expected in ((2, 2), (1, 2), (2, 2), (3, 3)):
            assert store.put(place, [change(sequence)._replace(event_id=f"e-{sequence}-{expected}")]) == []
            assert store.get(place, [ORDER])[ORDER].sequence_number == expected
        assert store.get(place, [ORDER])[ORDER] == change(3)._replace(event_id="e-3-3")
        store.put(place, [Change("order", "o-1", 3, "another", '"other"')])
        assert store.get(place, [ORDER])[ORDER].event_id == "e-3-3"
        assert store.get(place, [Aggregate("order", "o-2")]) == {}

    def test_a_deletion_leaves_a_tombstone_that_keeps_the_sequence(
        self, store: DocumentStore, place: str
    ) -> None:
        store.put(place, [change(1)])
        store.put(place, [change(3, deleted=True)])
        store.put(place, [change(2)])
        assert store.get(place, [ORDER]) == {ORDER: change(3, deleted=True)}
        assert list(store.scan(place)) == [change(3, deleted=True)]
        store.put(place, [change(4)])
        assert store.get(place, [ORDER]) == {ORDER: change(4)}

    def test_of_concurrent_writers_of_a_document_the_highest_sequence_wins(
        self, store: DocumentStore, place: str, open_store: Open
    ) -> None:
        names = [f"o-{number}" for number in range(5)]

        def write(seed: int) -> None:
            own = open_store()
            order = Random(seed).sample(range(1, 26), k=25)
            for sequence in order:
                assert own.put(place, [change(sequence, of=name) for name in names]) == []

        in_threads([partial(write, seed) for seed in range(3)])
        assert list(store.scan(place)) == [change(25, of=name) for name in names]

    def test_many_documents_in_one_call_are_found_and_scanned_in_order(
        self, store: DocumentStore, place: str
    ) -> None:
        changes = [change(1 << 40, of=f"o-{number}") for number in range(CALL_MAX)]
        assert store.put(place, changes) == []
        wanted = [Aggregate(each.aggregate_type, each.aggregate_id) for each in changes]
        assert store.get(place, wanted) == dict(zip(wanted, changes, strict=True))
        assert list(store.scan(place)) == sorted(changes, key=lambda each: each.aggregate_id.encode())

    def test_what_one_connection_has_stored_another_one_reads(
        self, store: DocumentStore, place: str, open_store: Open
    ) -> None:
        other = open_store()
        for sequence in range(1, 6):
            store.put(place, [change(sequence)])
            assert other.get(place, [ORDER]) == {ORDER: change(sequence)}
            store.put_notes(place, [Note("kind", "group", "id", str(sequence))])
            assert [note.text for note in other.notes(place, "kind")] == [str(sequence)]
            other.remove_notes(place, "kind", ["id"])
            assert list(store.notes(place, "kind")) == []

    def test_notes_are_replaced_found_by_group_and_removed_by_id(
        self, store: DocumentStore, place: str
    ) -> None:
        notes = [
            Note("waiting", f"g-{number % 3}", f"id-{number}", f'"{number}é\\u0000"') for number in range(9)
        ]
        store.put_notes(place, notes[::-1])
        store.put_notes(place, [Note("marks", "g-1", "id-1", "{}")])
        assert list(store.notes(place, "waiting")) == notes
        assert list(store.notes(place, "waiting", groups=["g-0", "g-2", "none"])) == [
            note for note in notes if note.group != "g-1"
        ]
        assert list(store.notes(place, "waiting", groups=[])) == []
        store.put_notes(place, [notes[1]._replace(text="[]", group="moved")])
        assert list(store.notes(place, "waiting", groups=["moved"])) == [
            Note("waiting", "moved", "id-1", "[]")
        ]
        assert [note.id for note in store.notes(place, "waiting", groups=["g-1"])] == ["id-4", "id-7"]
        store.remove_notes(place, "waiting", ["id-0", "id-1", "unknown"])
        assert [note.id for note in store.notes(place, "waiting")] == [f"id-{at}" for at in range(2, 9)]
        assert [note.id for note in store.notes(place, "marks")] == ["id-1"]

    def test_many_notes_are_read_while_others_are_written(self, store: DocumentStore, place: str) -> None:
        long = "x" * 160
        notes = [Note("many", f"{long}-{number}", f"{long}-{number:04}", "{}") for number in range(CALL_MAX)]
        store.put_notes(place, notes)
        store.put_notes(place, [Note("many", "more", f"{long}-z{number:04}", "{}") for number in range(500)])
        found = []
        for number, note in enumerate(store.notes(place, "many")):
            if number % 500 == 0:
                store.put_notes(place, [Note("others", note.group, note.id, "{}")])
            found.append(note.id)
        assert len(found) == CALL_MAX + 500
        assert found == sorted(found)
        assert len(list(store.notes(place, "others"))) == 3
        groups = [note.group for note in notes]
        assert [note.id for note in store.notes(place, "many", groups=groups)] == found[:CALL_MAX]
        store.remove_notes(place, "many", found[:CALL_MAX])
        assert len(list(store.notes(place, "many"))) == 500

    def test_places_stand_side_by_side_until_they_are_dropped(self, store: DocumentStore, place: str) -> None:
        other = new_place(store)
        store.publish_place(place)
        store.put(place, [change(5)])
        store.put_notes(place, [Note("kind", "group", "id", "1")])
        store.put(other, [change(1)])
        store.put_notes(other, [Note("kind", "group", "id", "2")])
        store.create_place(place)  # It stays as it is.
        assert (store.get(place, [ORDER])[ORDER], store.get(other, [ORDER])[ORDER]) == (change(5), change(1))
        store.publish_place(other)
        for _ in range(2):
            store.drop_place(place)
        assert list(store.scan(other)) == [change(1)]
        assert [note.text for note in store.notes(other, "kind")] == ["2"]
        store.publish_place(place)  # A late run: nothing changes.

    def test_a_late_writer_does_not_bring_back_a_place_that_was_dropped(
        self, store: DocumentStore, place: str, open_store: Open
    ) -> None:
        late = open_store()
        late.put(place, [change(1)])
        late.put_notes(place, [Note("kind", "group", "id", "1")])
        store.drop_place(place)
        with pytest.raises(ReadModelUnavailable):
            late.put(place, [change(2)])
        with pytest.raises(ReadModelUnavailable):
            late.put_notes(place, [Note("kind", "group", "id", "2")])
        late.remove_notes(place, "kind", ["another"])
        store.create_place(place)
        assert list(store.scan(place)) == []
        assert list(store.notes(place, "kind")) == []

    def test_projections_do_not_see_each_other(
        self, sink: DocumentSink, store: DocumentStore, place: str
    ) -> None:
        store.write_control("control", "{}", expected=None)
        store.put(place, [change(1)])
        other = sink.open_store("another")
        try:
            assert other.read_control("control") is None
            theirs = new_place(other)
            assert list(other.scan(theirs)) == []
        finally:
            other.close()

    def test_the_address_shows_no_password(self, store: DocumentStore) -> None:
        assert store.address
        assert "password" not in store.address


def new_place(store: DocumentStore) -> str:
    place = uuid4().hex
    store.create_place(place)
    return place


def in_threads(works: list[Callable[[], None]]) -> None:
    """All at once; raises what the first of them has raised."""
    with ThreadPoolExecutor(len(works)) as pool:
        for work in [pool.submit(work) for work in works]:
            work.result()

"""The store's own promises: guarded documents, control texts, notes, and places that are swapped at once."""

import threading
import uuid

import pytest

from driftq.errors import ReadModelUnavailable
from driftq.model import Aggregate
from driftq.sinks import Change
from driftq.sinks.documents.port import Note
from driftq.sinks.terminusdb import TerminusSink
from driftq.sinks.terminusdb.store import TerminusStore
from tests.conformance.terminusdb.conftest import NAME, OpenStore, change, readers_see
from tests.services_terminusdb import TerminusProcess, create_database

FIRST, SECOND = uuid.UUID(int=1).hex, uuid.UUID(int=2).hex
ORDER = Aggregate("order", "o-1")


def sequences(store: TerminusStore, place: str = FIRST) -> dict[str, int]:
    return {row.aggregate_id: row.sequence_number for row in store.scan(place)}


@pytest.mark.clause("V7", "V2", "V2g")
def test_an_older_or_equal_document_changes_nothing(store: TerminusStore) -> None:
    store.create_place(FIRST)
    assert store.put(FIRST, [change(3), change(1, of="o-2")]) == []
    assert store.put(FIRST, [change(2), change(3)._replace(event_id="other"), change(2, of="o-2")]) == []
    found = store.get(FIRST, [ORDER, Aggregate("order", "o-2"), Aggregate("order", "none")])
    assert found == {ORDER: change(3), Aggregate("order", "o-2"): change(2, of="o-2")}


@pytest.mark.clause("V7")
def test_a_tombstone_keeps_the_guard(store: TerminusStore) -> None:
    store.create_place(FIRST)
    store.put(FIRST, [change(1)])
    store.put(FIRST, [change(5, deleted=True)])
    store.put(FIRST, [change(4)])
    assert store.get(FIRST, [ORDER]) == {ORDER: change(5, deleted=True)}
    store.put(FIRST, [change(6)])
    assert store.get(FIRST, [ORDER]) == {ORDER: change(6)}


@pytest.mark.clause("X7", "V7")
def test_ids_with_any_characters_are_read_back_and_never_collide(store: TerminusStore) -> None:
    odd = [
        "a/b",
        "a b",
        "A",
        "a",
        "ä",
        "a__b",
        "a_5fb",
        "%2F",
        "",
        "日本",
        "Doc/x",
        "a\nb",
        '"',
        "a+b",
        "x" * 300,
    ]
    changes = [Change(kind, name, 1, "e", '{"at": 1}') for kind in ("o", "o__a") for name in odd]
    store.create_place(FIRST)
    assert store.put(FIRST, changes) == []
    assert store.get(FIRST, [Aggregate(*one[:2]) for one in changes]) == {
        Aggregate(*one[:2]): one for one in changes
    }
    assert list(store.scan(FIRST)) == sorted(changes)


def test_sequences_over_64_bits_are_compared_as_numbers(store: TerminusStore) -> None:
    store.create_place(FIRST)
    store.put(FIRST, [change(2**70)])
    store.put(FIRST, [change(9)])
    assert sequences(store) == {"o-1": 2**70}


@pytest.mark.clause("V7")
def test_writers_at_the_same_moment_leave_the_newest(open_store: OpenStore) -> None:
    open_store().create_place(FIRST)
    begin = threading.Barrier(6)

    def write(own: int) -> None:
        store = open_store()
        begin.wait()
        for sequence in range(own, 60, 6):
            store.put(FIRST, [change(sequence, of="shared"), change(sequence, of=f"o-{own}")])

    writers = [threading.Thread(target=write, args=(own,)) for own in range(6)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sequences(open_store()) == {"shared": 59} | {f"o-{own}": 54 + own for own in range(6)}


def test_one_of_many_writers_of_a_control_text_wins_each_version(open_store: OpenStore) -> None:
    begin = threading.Barrier(4)
    won: list[str] = []

    def write(own: int) -> None:
        store = open_store()
        begin.wait()
        for round_number in range(8):
            stored = store.read_control("control")
            text = f"{own} {round_number}"
            if store.write_control("control", text, expected=stored.version if stored else None):
                won.append(f"{stored.text if stored else None} -> {text}")

    writers = [threading.Thread(target=write, args=(own,)) for own in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    followed = [one.partition(" -> ")[0] for one in won]
    assert len(set(followed)) == len(followed)  # No text was replaced twice.
    last = open_store().read_control("control")
    assert last is not None
    assert {last.text} == {one.partition(" -> ")[2] for one in won} - set(followed)


def test_a_control_text_is_stored_only_over_the_version_that_was_read(open_store: OpenStore) -> None:
    mine, other = open_store(), open_store()
    assert mine.read_control("control") is None
    assert not mine.write_control("control", "lost", expected="7")
    assert mine.write_control("control", "first", expected=None)
    assert not other.write_control("control", "lost", expected=None)
    first = other.read_control("control")
    assert first is not None
    assert first.text == "first"
    assert other.write_control("control", "second", expected=first.version)
    assert not mine.write_control("control", "lost", expected=first.version)
    assert mine.read_control("other") is None


def test_projections_of_one_database_do_not_meet(terminus_database_url: str) -> None:
    sink = TerminusSink(terminus_database_url)
    orders, totals = sink.open_store("orders"), sink.open_store("order_totals")
    for store, sequence in ((orders, 1), (totals, 2)):
        store.create_place(FIRST)
        store.publish_place(FIRST)
        store.put(FIRST, [change(sequence)])
        assert store.write_control("control", str(sequence), expected=None)
    totals.drop_place(FIRST)
    assert sequences(orders) == {"o-1": 1}
    kept = orders.read_control("control")
    assert kept is not None
    assert kept.text == "1"


def test_notes_are_replaced_found_by_group_and_removed(store: TerminusStore) -> None:
    store.create_place(FIRST)
    notes = [Note("waiting", group, f"{group}-{number}", "{}") for group in "ab" for number in (2, 1)]
    store.put_notes(FIRST, [*notes, Note("marks", "a", "a-1", '"mark"')])
    store.put_notes(FIRST, [notes[0]._replace(text="[1]")])
    assert [note.id for note in store.notes(FIRST, "waiting")] == ["a-1", "a-2", "b-1", "b-2"]
    assert list(store.notes(FIRST, "waiting", groups=["a", "none"])) == [
        notes[1],
        notes[0]._replace(text="[1]"),
    ]
    store.remove_notes(FIRST, "waiting", ["a-1", "b-2", "never"])
    assert [note.id for note in store.notes(FIRST, "waiting")] == ["a-2", "b-1"]
    assert [note.text for note in store.notes(FIRST, "marks", groups=["a"])] == ['"mark"']
    assert list(store.notes(FIRST, "none")) == []


@pytest.mark.clause("V7", "V4")
def test_a_rebuild_fills_a_branch_and_is_swapped_in_at_once(
    open_store: OpenStore, terminus_database_url: str
) -> None:
    live, rebuild = open_store(), open_store()
    live.create_place(FIRST)
    live.publish_place(FIRST)
    live.put(FIRST, [change(4), change(1, of="gone")])
    rebuild.create_place(SECOND)
    rebuild.put(SECOND, [change(2)])
    rebuild.put_notes(SECOND, [Note("marks", "g", "n", "1")])
    assert readers_see(terminus_database_url) == {"o-1": 4, "gone": 1}
    rebuild.publish_place(SECOND)
    assert readers_see(terminus_database_url) == {"o-1": 2}
    rebuild.put(SECOND, [change(5)])  # The place goes on where readers look.
    assert readers_see(terminus_database_url) == {"o-1": 5}
    assert [note.id for note in rebuild.notes(SECOND, "marks")] == ["n"]
    live.drop_place(FIRST)
    assert readers_see(terminus_database_url) == {"o-1": 5}


@pytest.mark.clause("V7")
def test_a_reset_that_comes_late_takes_nothing_back(
    open_store: OpenStore, terminus_database_url: str
) -> None:
    store = open_store()
    store.create_place(FIRST)
    store.publish_place(FIRST)
    store.put(FIRST, [change(1)])
    before = store._server.head(NAME)
    store.put(FIRST, [change(2), change(1, of="o-2")])
    store._server.reset(NAME, head=before)  # Of a run that was killed, and it was on its way all the time.
    assert readers_see(terminus_database_url) == {"o-1": 1}
    assert sequences(store) == {"o-1": 2, "o-2": 1}
    store.put(FIRST, [change(1, of="o-3")])
    assert readers_see(terminus_database_url) == {"o-1": 2, "o-2": 1, "o-3": 1}


def test_readers_see_the_last_write_when_two_of_them_cross(
    open_store: OpenStore, terminus_database_url: str
) -> None:
    slow, fast = open_store(), open_store()
    slow.create_place(FIRST)
    slow.publish_place(FIRST)
    reset = slow._server.reset

    def late_reset(branch: str, *, head: str) -> None:
        slow._server.reset = reset  # type: ignore[method-assign]
        fast.put(FIRST, [change(1, of="o-2")])
        reset(branch, head=head)

    slow._server.reset = late_reset  # type: ignore[method-assign]
    slow.put(FIRST, [change(1)])
    assert readers_see(terminus_database_url) == {"o-1": 1, "o-2": 1}


@pytest.mark.clause("V7")
def test_a_late_run_changes_nothing_in_the_place_that_replaced_its_own(open_store: OpenStore) -> None:
    late, next_run = open_store(), open_store()
    late.create_place(FIRST)
    late.publish_place(FIRST)
    late.put(FIRST, [change(9)])
    next_run.create_place(SECOND)
    next_run.publish_place(SECOND)
    next_run.drop_place(FIRST)
    next_run.put_notes(SECOND, [Note("waiting", "g", "n", "1")])
    with pytest.raises(ReadModelUnavailable):
        late.put(FIRST, [change(10)])
    with pytest.raises(ReadModelUnavailable):
        late.put_notes(FIRST, [Note("waiting", "g", "late", "1")])
    late.remove_notes(FIRST, "waiting", ["n"])
    with pytest.raises(ReadModelUnavailable):
        list(late.scan(FIRST))
    late.publish_place(FIRST)  # It is not there: nothing happens.
    assert sequences(next_run, SECOND) == {}
    assert [note.id for note in next_run.notes(SECOND, "waiting")] == ["n"]


@pytest.mark.clause("V7", "V3")
def test_a_refused_document_is_found_among_many_and_the_others_are_stored() -> None:
    server = TerminusProcess("--refused-text", "poison")
    try:
        store = TerminusSink(create_database(server.url)).open_store("orders")
        store.create_place(FIRST)
        changes = [change(1, of=f"o-{number}") for number in range(40)]
        changes[7] = changes[7]._replace(state='"poison"')
        changes[31] = changes[31]._replace(state='"poison"')
        lone = Change("order", "\ud800", 1, "e", "1")
        refused = store.put(FIRST, [*changes, lone])
        assert {one.change.aggregate_id for one in refused} == {"o-7", "o-31", "\ud800"}
        assert any("SchemaCheckFailure" in one.error for one in refused)
        assert len(sequences(store)) == 38
    finally:
        server.remove()


def test_a_lost_class_is_an_outage_and_no_fault_of_the_documents(store: TerminusStore) -> None:
    store.create_place(FIRST)
    store._schema.documents = "Removed"
    with pytest.raises(ReadModelUnavailable, match="SchemaCheckFailure"):
        store.put(FIRST, [change(1), change(1, of="o-2")])


@pytest.mark.clause("V7", "V3")
def test_an_outage_raises_and_what_was_stored_is_there_afterwards(private_terminus: TerminusProcess) -> None:
    store = TerminusSink(create_database(private_terminus.url)).open_store("orders")
    store.create_place(FIRST)
    store.publish_place(FIRST)
    store.put(FIRST, [change(1)])
    store.write_control("control", "1", expected=None)
    private_terminus.kill()
    for call in (
        lambda: store.put(FIRST, [change(2)]),
        lambda: store.get(FIRST, [ORDER]),
        lambda: store.read_control("control"),
        lambda: store.publish_place(FIRST),
    ):
        with pytest.raises(ReadModelUnavailable) as failed:
            call()
        assert "root" not in str(failed.value)
    private_terminus.start()
    assert sequences(store) == {"o-1": 1}
    stored = store.read_control("control")
    assert stored is not None
    assert stored.text == "1"


def test_a_server_that_refuses_unknown_ids_in_a_list_is_read_as_well() -> None:
    server = TerminusProcess("--refuse-unknown-ids")
    try:
        store = TerminusSink(create_database(server.url)).open_store("orders")
        store.create_place(FIRST)
        store.put(FIRST, [change(1, of=f"o-{number}") for number in range(5)])
        store.publish_place(FIRST)
        wanted = [Aggregate("order", f"o-{number}") for number in range(0, 20, 2)]
        assert set(store.get(FIRST, wanted)) == {Aggregate("order", f"o-{number}") for number in (0, 2, 4)}
    finally:
        server.remove()


def test_more_documents_than_a_commit_takes(terminus_database_url: str) -> None:
    store = TerminusSink(terminus_database_url, batch_documents=7).open_store("orders")
    store.create_place(FIRST)
    store.put(FIRST, [change(1, of=f"o-{number}") for number in range(30)])
    store.put(FIRST, [change(2, of=f"o-{number}") for number in range(0, 30, 2)])
    assert sequences(store) == {f"o-{number}": 1 + (number % 2 == 0) for number in range(30)}

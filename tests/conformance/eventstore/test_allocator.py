"""Who picks the number: every mode and knob, and changing them on a store that has events."""

import pytest
from sqlalchemy import text

from driftq.errors import InvalidArgument, SchemaOutdated, SequenceConflict
from driftq.eventstore import AllocatorMode, Appended, EventStore, Refused
from driftq.sql import Database, open_database
from tests.conformance.eventstore.conftest import Setup
from tests.unit.eventstore.making import command, update

pytestmark = pytest.mark.clause("S7")


def reservations(database: Database, schema: str) -> list[tuple[str, int]]:
    asked = text(f'SELECT handler_prefix, last_sequence FROM "{schema}".aggregate_sequences')
    with database.snapshot() as snapshot:
        rows = snapshot.connection.execute(asked).all()
    return sorted((row[0], row[1]) for row in rows)


def test_the_database_numbers_by_default(setup: Setup) -> None:
    own = AllocatorMode.SQLITE if setup.engine == "sqlite" else AllocatorMode.POSTGRES
    setup.store().append([command("a")])
    assert setup.store(allocator=own).append([command("b")]) == [Appended("b", 2)]


def test_another_database_than_the_mode_says_refuses_the_start(setup: Setup) -> None:
    other = AllocatorMode.POSTGRES if setup.engine == "sqlite" else AllocatorMode.SQLITE
    with pytest.raises(InvalidArgument) as refused:
        setup.store(allocator=other)
    assert refused.value.field == "allocator"


@pytest.mark.parametrize("mode", [AllocatorMode.LEGACY, AllocatorMode.S3])
def test_the_newest_stored_event_plus_one(setup: Setup, mode: AllocatorMode) -> None:
    store = setup.store(allocator=mode)
    assert store.append([command("a"), command("b")]) == [Appended("a", 1), Appended("b", 2)]
    assert store.append([command("a")]) == [Appended("a", 1, duplicate=True)]
    with pytest.raises(SequenceConflict):
        store.append([update("c", 1)])
    assert store.append([update("c", 2)]) == [Appended("c", 3)]


def test_the_caller_numbers(setup: Setup) -> None:
    store = setup.store(allocator=AllocatorMode.OFF)
    with pytest.raises(InvalidArgument):
        store.append([command("a")])
    assert store.append([command("a", sequence_number=1), command("b", sequence_number=2)]) == [
        Appended("a", 1),
        Appended("b", 2),
    ]
    assert store.append([command("a", sequence_number=1)]) == [Appended("a", 1, duplicate=True)]
    for taken in (1, 2):
        with pytest.raises(SequenceConflict):
            store.append([command("c", sequence_number=taken)])
    with pytest.raises(SequenceConflict):
        store.append([command("c", sequence_number=3, expected_seq=1)])
    assert store.append([command("c", sequence_number=7)]) == [Appended("c", 7)]


def test_modes_may_be_changed_on_a_store_that_has_events(setup: Setup) -> None:
    setup.store().append([command("a")])
    setup.store(allocator=AllocatorMode.LEGACY).append([command("b")])
    setup.store(allocator=AllocatorMode.OFF).append([command("c", sequence_number=5)])
    assert setup.store().append([command("d")]) == [Appended("d", 6)]


@pytest.mark.parametrize("engine", ["postgres"])
def test_the_prefix_names_the_rows_and_another_goes_on_where_the_events_are(setup: Setup) -> None:
    database = setup.database()
    setup.store(database).append([command("a"), command("b")])
    assert setup.store(database, handler_prefix="other").append([command("c")]) == [Appended("c", 3)]
    assert reservations(database, f"{setup.schema}_sequence") == [("other", 3), ("write_side", 2)]
    assert setup.store(database).append([command("d")]) == [Appended("d", 4)]


@pytest.mark.parametrize("engine", ["postgres"])
def test_the_schema_is_where_the_table_lives(setup: Setup) -> None:
    setup.store().append([command("a")])
    elsewhere = f"{setup.schema}_elsewhere"
    fresh = open_database(setup.url, schema=setup.schema, schemas={"sequence": elsewhere})
    with pytest.raises(SchemaOutdated):
        EventStore(fresh)
    fresh.close()
    moved = setup.database(sequence_schema=elsewhere)
    assert EventStore(moved).append([command("b")]) == [Appended("b", 2)]
    assert reservations(moved, elsewhere) == [("write_side", 2)]


@pytest.mark.parametrize("engine", ["postgres"])
def test_a_database_that_was_not_told_the_schema_is_refused(setup: Setup) -> None:
    setup.store()
    bare = open_database(setup.url, schema=setup.schema)
    with pytest.raises(InvalidArgument):
        EventStore(bare)
    bare.close()


@pytest.mark.clause("S2", "S6")
@pytest.mark.parametrize("engine", ["postgres"])
def test_rows_that_a_crash_of_the_server_emptied_leave_no_gap_and_no_number_twice(setup: Setup) -> None:
    database = setup.database()
    store = setup.store(database)
    store.append([command("a"), command("b"), command("x", aggregate_id="o-2")])
    with database.transaction() as transaction:
        transaction.connection.execute(text(f'TRUNCATE "{setup.schema}_sequence".aggregate_sequences'))
    assert store.append([command("c"), update("y", 1, aggregate_id="o-2")]) == [
        Appended("c", 3),
        Appended("y", 2),
    ]
    assert reservations(database, f"{setup.schema}_sequence") == [("write_side", 2), ("write_side", 3)]


@pytest.mark.clause("S6")
@pytest.mark.parametrize("engine", ["postgres"])
def test_a_row_that_a_refused_command_left_behind_burns_no_number(setup: Setup) -> None:
    database = setup.database()
    store = setup.store(database)
    mixed = store.append_many([[command("a")], [update("early", 4, aggregate_id="o-2")]])
    assert mixed[0] == [Appended("a", 1)]
    assert isinstance(mixed[1][0], Refused)
    assert reservations(database, f"{setup.schema}_sequence") == [("write_side", 0), ("write_side", 1)]
    for _ in range(2):  # The second time the id is known.
        (answer,) = store.append([command("late", aggregate_id="o-2")])
        assert answer.sequence_number == 1
    assert store.append([update("early", 1, aggregate_id="o-2")]) == [Appended("early", 2)]

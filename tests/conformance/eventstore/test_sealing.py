"""The sealer: positions in commit order without gaps, segments once and whole, one sealer at a time."""

import io
from itertools import pairwise

import pyarrow.parquet as pq
import pytest

from driftq.errors import SealerReplaced, SegmentDiffers, SegmentsAhead, SequenceConflict
from driftq.eventstore import EventStore, SealOptions
from driftq.eventstore.append.writer import EventWriter
from driftq.eventstore.options import AllocatorMode, MismatchMode
from driftq.eventstore.schema import load_queries
from driftq.eventstore.seal.sealer import Sealer
from driftq.eventstore.stored import SegmentRange
from driftq.testing.clock import VirtualClock
from tests.conformance.eventstore.conftest import Setup
from tests.conformance.eventstore.doubles import TellsTwice
from tests.unit.eventstore.making import a_draft, command

pytestmark = pytest.mark.clause("S8")


def fill(store: EventStore, first: int, last: int) -> None:
    store.append([command(f"e{number}", aggregate_id=f"o-{number % 3}") for number in range(first, last + 1)])


def forget_positions(setup: Setup) -> None:
    """As an earlier release leaves events in SQLite: stored, and not placed yet."""
    if setup.engine == "sqlite":
        with setup.database().transaction() as transaction:
            transaction.connection.exec_driver_sql("DELETE FROM event_positions")


def ids(store: EventStore) -> list[str]:
    return [event.event_id for event in store.read_log().events]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_an_event_in_sqlite_is_in_the_log_when_its_append_returns(setup: Setup) -> None:
    store = setup.store()
    fill(store, 1, 5)
    store.append([command("e1", aggregate_id="o-1"), command("e6", aggregate_id="o-9")])  # e1 is known.
    with pytest.raises(SequenceConflict):
        store.append([command("late", aggregate_id="o-9", expected_seq=7)])
    fill(store, 7, 9)
    assert ids(store) == [f"e{number}" for number in range(1, 10)]
    assert [event.position for event in store.read_log().events] == list(range(1, 10))
    assert setup.sealer().assign_positions() == 0


@pytest.mark.parametrize("engine", ["sqlite"])
def test_events_that_an_earlier_release_left_come_first(setup: Setup) -> None:
    store = setup.store()
    fill(store, 1, 3)
    forget_positions(setup)
    fill(store, 4, 5)
    assert ids(store) == ["e1", "e2"]  # As many as were appended: no append pays for a long past.
    setup.sealer().step()
    assert ids(store) == ["e1", "e2", "e3", "e4", "e5"]


@pytest.mark.parametrize("engine", ["sqlite"])
def test_a_sealer_with_nothing_to_do_takes_no_turn_from_the_writers(
    setup: Setup, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = setup.database()
    store, sealer = setup.store(database), setup.sealer(database)
    fill(store, 1, 5)
    sealer.step()
    monkeypatch.setattr(database, "transaction", lambda **_: pytest.fail("the sealer wants to write"))
    sealer.step()


def test_a_segment_that_fills_slowly_is_as_long_as_one_that_was_full_at_once(setup: Setup) -> None:
    store, sealer = setup.store(), setup.sealer(segment_bytes_max=1000)
    for number in range(7):
        store.append([command(f"e{number}", payload="x" * 400)])
        sealer.step()
    assert list(setup.objects.segments()) == [SegmentRange(1, 3), SegmentRange(4, 6)]
    sealer.step(flush=True)
    assert list(setup.objects.segments())[-1] == SegmentRange(7, 7)


def test_segments_hold_the_log_without_gap_or_overlap(setup: Setup) -> None:
    store, sealer = setup.store(), setup.sealer(segment_events_max=4)
    fill(store, 1, 10)
    sealer.step()
    assert list(setup.objects.segments()) == [SegmentRange(1, 4), SegmentRange(5, 8)]
    fill(store, 11, 12)
    sealer.step(flush=True)
    ranges = list(setup.objects.segments())
    assert ranges[-1].last == 12
    assert all(one.last + 1 == other.first for one, other in pairwise(ranges))
    positions = [
        position
        for each in ranges
        for position in pq.read_table(io.BytesIO(setup.objects.read(each.name)))["position"].to_pylist()
    ]
    assert positions == list(range(1, 13))


def test_a_segment_is_cut_when_it_is_large_enough(setup: Setup) -> None:
    store, sealer = setup.store(), setup.sealer(segment_bytes_max=1000)
    store.append([command(f"e{number}", payload="x" * 400) for number in range(7)])
    sealer.step()
    assert list(setup.objects.segments()) == [SegmentRange(1, 3), SegmentRange(4, 6)]


def test_positions_go_on_over_many_small_steps(setup: Setup) -> None:
    store, sealer = setup.store(), setup.sealer(position_events_max=3)
    fill(store, 1, 10)
    forget_positions(setup)
    assert [sealer.assign_positions() for _ in range(5)] == [3, 3, 3, 1, 0]
    assert [event.event_id for event in store.read_log().events] == [f"e{number}" for number in range(1, 11)]


@pytest.mark.parametrize("engine", ["postgres"])
def test_what_is_not_committed_has_no_position_and_is_placed_when_it_is(setup: Setup) -> None:
    database = setup.database()
    store, sealer = setup.store(database), setup.sealer(database)
    writer = EventWriter(
        database,
        load_queries(database),
        mode=AllocatorMode.POSTGRES,
        mismatch=MismatchMode.ERROR,
        handler_prefix="write_side",
    )
    slow = a_draft("slow", mode=AllocatorMode.POSTGRES)
    with database.transaction() as transaction:
        writer.store_in(transaction, [[slow]])
        store.append([command("fast", aggregate_id="o-2")])
        assert sealer.step(flush=True) == 1
    assert sealer.step(flush=True) == 1
    assert [event.event_id for event in store.read_log().events] == ["fast", "slow"]
    assert list(setup.objects.segments()) == [SegmentRange(1, 1), SegmentRange(2, 2)]


def test_a_sealer_waits_for_the_lease_of_another(setup: Setup) -> None:
    clock = VirtualClock()
    database = setup.database(clock=clock)
    setup.store(database)
    one, other = (Sealer(database, setup.objects, owner=name, options=SealOptions()) for name in ("a", "b"))
    assert one.take()
    assert not other.take()
    clock.advance(ms=SealOptions().lease_ms + 1)
    assert other.take()
    with pytest.raises(SealerReplaced) as lost:
        one.assign_positions()
    assert (lost.value.owner, lost.value.token) == ("a", 1)
    other.release()
    assert one.take()


def test_a_sealer_that_was_replaced_half_way_changes_nothing(setup: Setup) -> None:
    store, old = setup.store(), setup.sealer(owner="old")
    fill(store, 1, 5)
    old.assign_positions()
    new = setup.sealer(owner="new")
    for step in (old.assign_positions, old.seal, old.trim):
        with pytest.raises(SealerReplaced):
            step()
    new.step(flush=True)
    assert list(setup.objects.segments()) == [SegmentRange(1, 5)]


def test_a_segment_that_is_there_already_is_taken_as_done(setup: Setup) -> None:
    fill(setup.store(), 1, 3)
    setup.objects = TellsTwice(setup.objects)
    setup.sealer().step(flush=True)
    assert list(setup.objects.segments()) == [SegmentRange(1, 3)]


def test_another_ones_object_under_our_name_is_an_alarm(setup: Setup) -> None:
    store, sealer = setup.store(), setup.sealer()
    other = setup.emptied()
    strange_store, strange_sealer = other.store(), other.sealer()
    fill(store, 1, 3)
    strange_store.append([command(f"strange{number}") for number in range(3)])
    sealer.step(flush=True)
    strange_sealer.assign_positions()
    with pytest.raises(SegmentDiffers):
        strange_sealer.seal(flush=True)
    other.close()


def test_a_database_that_does_not_know_the_segments_may_not_go_on(setup: Setup) -> None:
    fill(setup.store(), 1, 5)
    setup.sealer().step(flush=True)
    lost = setup.emptied()
    with pytest.raises(SegmentsAhead) as refused:
        lost.store()
    assert (refused.value.sealed, refused.value.known) == (5, 0)
    with pytest.raises(SegmentsAhead):
        lost.sealer()
    lost.close()


@pytest.mark.clause("S9", "X7")
def test_parts_that_look_alike_stay_apart_in_a_segment(setup: Setup) -> None:
    store, sealer = setup.store(), setup.sealer(trim=True)
    ids = ["a", "A", "a ", " a", "é", "e\u0301", "a:b", "a/b", "a%2Fb", "a\nb", "a\r\nb", "", "..", "_"]
    store.append([command(f"e{number}", aggregate_id=each) for number, each in enumerate(ids)])
    sealer.step(flush=True)
    for number, each in enumerate(ids):
        (found,) = store.read_aggregate("order", each).events
        assert (found.event_id, found.aggregate_id, found.sequence_number) == (f"e{number}", each, 1)

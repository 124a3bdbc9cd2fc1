"""Rebuilding SQL from the segments: every sealed event comes back, and the store goes on from there."""

import pytest

from driftq.errors import SealerReplaced, SegmentLost, UnsealedEvents
from driftq.eventstore import Appended, EventStore
from driftq.eventstore.read.rebuild import rebuild
from driftq.eventstore.stored import SegmentRange
from tests.conformance.eventstore.conftest import Setup
from tests.conformance.eventstore.doubles import Holey
from tests.unit.eventstore.making import command, update

pytestmark = pytest.mark.clause("S8")


def sealed(setup: Setup, *, trim: bool = False) -> EventStore:
    store = setup.store()
    store.append([command(f"e{number}", aggregate_id=f"o-{number % 3}") for number in range(10)])
    setup.sealer(segment_events_max=4, trim=trim).step(flush=True)
    return store


@pytest.mark.clause("S2", "S4")
@pytest.mark.parametrize("trim", [False, True])
def test_everything_sealed_comes_back(setup: Setup, trim: bool) -> None:
    before = sealed(setup, trim=trim).read_log().events
    lost = setup.emptied()
    done: list[SegmentRange] = []
    assert rebuild(lost.database(), lost.objects, owner="r", on_segment=done.append) == 10
    assert done == [SegmentRange(1, 4), SegmentRange(5, 8), SegmentRange(9, 10)]
    store = lost.store()
    assert store.read_log().events == before
    assert store.append([command("e3", aggregate_id="o-0")]) == [Appended("e3", 2, duplicate=True)]
    assert store.append([update("new", 4, aggregate_id="o-0")]) == [Appended("new", 5)]
    lost.sealer().step(flush=True)
    assert store.read_log(from_position=11).events[0].event_id == "new"
    lost.close()


def test_a_rebuild_goes_on_where_it_was_stopped(setup: Setup) -> None:
    before = sealed(setup).read_log().events
    lost = setup.emptied()

    class Killed(Exception):
        pass

    def stop(segment: SegmentRange) -> None:
        raise Killed

    for _ in range(2):
        with pytest.raises(Killed):
            rebuild(lost.database(), lost.objects, owner="r", lease_ms=0, on_segment=stop)
    assert rebuild(lost.database(), lost.objects, owner="r", lease_ms=0) == 10
    assert lost.store().read_log().events == before
    lost.close()


@pytest.mark.parametrize("placed", [False, True])
def test_a_database_with_events_of_its_own_is_not_rebuilt(setup: Setup, placed: bool) -> None:
    store, sealer = setup.store(), setup.sealer()
    store.append([command("a")])
    if placed:
        sealer.assign_positions()
    sealer.release()
    with pytest.raises(UnsealedEvents):
        rebuild(setup.database(), setup.objects, owner="r")


def test_a_rebuild_does_not_disturb_a_sealer(setup: Setup) -> None:
    sealed(setup)
    with pytest.raises(SealerReplaced):
        rebuild(setup.database(), setup.objects, owner="r")


def test_a_missing_segment_is_said_and_nothing_behind_it_is_restored(setup: Setup) -> None:
    sealed(setup)
    lost = setup.emptied()
    with pytest.raises(SegmentLost):
        rebuild(lost.database(), Holey(setup.objects), owner="r")
    lost.close()


def test_reservations_that_outlived_their_events_leave_no_gap(setup: Setup) -> None:
    store = sealed(setup)
    store.append([command("unsealed", aggregate_id="o-0")])
    lost = setup.emptied()
    database = lost.database()
    rebuild(database, lost.objects, owner="r")
    assert lost.store(database).append([command("next", aggregate_id="o-0")]) == [Appended("next", 5)]
    lost.close()

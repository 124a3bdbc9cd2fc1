"""Small segments become large ones: nobody sees a gap or a double, whatever is killed on the way."""

import pytest

from driftq.errors import SegmentLost
from driftq.eventstore import EventStore
from driftq.eventstore.objects import Objects
from driftq.eventstore.read.rebuild import rebuild
from driftq.eventstore.seal.compaction import GRACE_S, join, plan_joins, remove_covered
from driftq.eventstore.seal.segment import decode_segment
from driftq.eventstore.stored import SegmentRange
from tests.conformance.eventstore.conftest import Setup
from tests.unit.eventstore.making import command

pytestmark = pytest.mark.clause("S8", "Z1", "Z3")

LATER = 4e9
"""When every time of grace is over."""


def sealed(setup: Setup, *, first: int = 1, last: int = 40, trim: bool = False) -> EventStore:
    """A log in segments of two events each."""
    store = setup.store()
    store.append([command(f"e{number}", aggregate_id=f"o-{number % 3}") for number in range(first, last + 1)])
    setup.sealer(segment_events_max=2, trim=trim).step(flush=True)
    return store


def positions(objects: Objects) -> list[int]:
    """What a reader of the segments sees."""
    return [
        event.position
        for segment in objects.segments()
        for event in decode_segment(objects.read(segment.name), name=segment.name)
    ]


def test_each_position_is_seen_once_after_every_step(setup: Setup) -> None:
    sealed(setup)
    objects = setup.objects
    every = list(range(1, 41))
    before = list(objects.segments())
    groups = plan_joins(objects.sizes(), events_max=10)
    assert [len(group) for group in groups] == [5, 5, 5]
    for group in groups:
        joined = join(objects, group)  # A kill may come after any of these.
        assert positions(objects) == every
        assert join(objects, group) == joined, "to do it again changes nothing"
    assert list(objects.segments())[:3] == [SegmentRange(1, 10), SegmentRange(11, 20), SegmentRange(21, 30)]
    assert plan_joins(objects.sizes(), events_max=10) == []

    assert remove_covered(objects, now=0, grace_s=GRACE_S) == [], "readers may still be at them"
    assert positions(objects) == every
    first, *rest = objects.covered()
    objects.delete(first.name)  # As far as a killed run came.
    assert positions(objects) == every
    assert remove_covered(objects, now=LATER) == rest
    assert positions(objects) == every
    assert len(list(objects.segments())) == len(before) - 15 + 3


def test_groups_stay_as_they_were_when_more_comes(setup: Setup) -> None:
    sealed(setup)
    early = plan_joins(setup.objects.sizes(), events_max=10)
    sealed(setup, first=41, last=60)
    late = plan_joins(setup.objects.sizes(), events_max=10)
    assert late[: len(early)] == early
    assert late[-1][-1].last < 60 - 2, "the newest segments are left to the sealer"
    tight = plan_joins(setup.objects.sizes(), bytes_max=1)
    assert tight == []


def test_the_store_reads_trimmed_events_from_joined_segments_and_goes_on(setup: Setup) -> None:
    store = sealed(setup, trim=True)
    before = store.read_log().events
    for group in plan_joins(setup.objects.sizes(), events_max=10):
        join(setup.objects, group)
    remove_covered(setup.objects, now=LATER)
    fresh = setup.store()
    assert fresh.read_log().events == before
    assert [event.position for event in fresh.read_stored(from_position=8, limit=5).events] == [
        8,
        9,
        10,
        11,
        12,
    ]
    fresh.append([command("more", aggregate_id="o-0")])
    setup.sealer(owner="next").step(flush=True)
    assert positions(setup.objects) == list(range(1, 42))
    with pytest.raises(SegmentLost):
        setup.objects.read(SegmentRange(1, 2).name)


def test_a_lost_database_comes_back_from_joined_segments(setup: Setup) -> None:
    before = sealed(setup).read_log().events
    lost = setup.emptied()

    def stop(segment: SegmentRange) -> None:
        if segment.last == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild(lost.database(), lost.objects, owner="r", lease_ms=0, on_segment=stop)
    for group in plan_joins(setup.objects.sizes(), events_max=10):
        join(setup.objects, group)
    assert rebuild(lost.database(), lost.objects, owner="r", lease_ms=0) == 40
    assert lost.store().read_log().events == before
    lost.close()

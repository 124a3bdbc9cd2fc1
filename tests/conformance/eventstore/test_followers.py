"""Groups that follow the log, on each engine: one position, moved by the newest follower alone."""

import pytest

from driftq.errors import FollowerNotFound, FollowerReplaced, InvalidArgument
from driftq.eventstore import EventFilter, EventStore
from tests.conformance.eventstore.conftest import Setup
from tests.unit.eventstore.making import command


@pytest.mark.clause("S11")
def test_a_group_keeps_its_position_and_only_moves_forward(store: EventStore) -> None:
    first = store.followers.open("mail", start=0)
    assert (first.token, first.position) == (1, 0)
    store.followers.move("mail", token=first.token, position=5)
    store.followers.move("mail", token=first.token, position=3)
    assert store.followers.require_current("mail", token=first.token) == 5
    assert store.followers.open("mail", start=9).position == 5


@pytest.mark.clause("S11")
def test_the_newest_token_alone_moves_the_position(setup: Setup) -> None:
    """Also when the two followers are on servers of their own."""
    here, there = setup.store(), setup.store()
    older = here.followers.open("mail", start=0)
    newer = there.followers.open("mail", start=0)
    with pytest.raises(FollowerReplaced) as replaced:
        here.followers.move("mail", token=older.token, position=7)
    assert (replaced.value.group, replaced.value.token) == ("mail", older.token)
    with pytest.raises(FollowerReplaced):
        here.followers.require_current("mail", token=older.token)
    there.followers.move("mail", token=newer.token, position=2)
    assert here.followers.require_current("mail", token=newer.token) == 2


@pytest.mark.clause("S11")
def test_groups_are_listed_in_pages_and_deleted(store: EventStore) -> None:
    for name in ("b", "a", "C", "ä"):
        store.followers.open(name, start=1)
    page = store.followers.listed(after="", limit=2)
    assert [group.name for group in page] == ["C", "a"]
    assert [group.name for group in store.followers.listed(after="a", limit=9)] == ["b", "ä"]
    store.followers.delete("a")
    for call in (
        lambda: store.followers.delete("a"),
        lambda: store.followers.move("a", token=1, position=2),
        lambda: store.followers.require_current("a", token=1),
    ):
        with pytest.raises(FollowerNotFound):
            call()
    with pytest.raises(InvalidArgument):
        store.followers.open("nul\x00", start=0)


@pytest.mark.clause("S11")
def test_a_filter_reads_on_behind_what_it_leaves_out(setup: Setup) -> None:
    store, sealer = setup.store(), setup.sealer(trim=True, segment_events_max=4)
    for number in range(10):
        kind = "paid" if number % 4 == 1 else "opened"
        store.append([command(f"e{number}", aggregate_id=f"o-{number}", event_type=kind)])
    sealer.step(flush=True)
    wanted = EventFilter(event_type="paid")
    page = store.read_log(limit=2, wanted=wanted)
    assert ([event.position for event in page.events], page.next_position) == ([2, 6], 7)
    rest = store.read_log(from_position=7, wanted=wanted)
    assert ([event.event_id for event in rest.events], rest.next_position) == (["e9"], 11)
    none = store.read_stored(wanted=EventFilter(aggregate_type="invoice"))
    assert (none.events, none.next_position) == ([], 11)
    beyond = store.read_log(from_position=20, wanted=wanted)
    assert (beyond.events, beyond.next_position) == ([], 20)

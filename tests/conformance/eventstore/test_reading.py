"""Reading: pages by aggregate, by log position and by time, from SQL and from segments alike."""

import datetime as dt

import pytest

from driftq.errors import InvalidArgument
from driftq.eventstore import EventFilter, EventStore
from tests.conformance.eventstore.conftest import Setup
from tests.unit.eventstore.making import NOW, command


def after(seconds: int) -> dt.datetime:
    return NOW + dt.timedelta(seconds=seconds)


@pytest.mark.clause("S1")
def test_an_aggregate_is_read_in_pages(store: EventStore) -> None:
    store.append([command(f"e{number}") for number in range(1, 6)])
    first = store.read_aggregate("order", "o-1", limit=2)
    assert ([event.event_id for event in first.events], first.next_seq) == (["e1", "e2"], 3)
    rest = store.read_aggregate("order", "o-1", from_seq=3, limit=3)
    assert ([event.event_id for event in rest.events], rest.next_seq) == (["e3", "e4", "e5"], None)
    assert store.read_aggregate("order", "o-1", from_seq=6).events == []
    assert store.read_aggregate("order", "unknown").events == []


@pytest.mark.clause("S8")
def test_the_log_is_read_in_order_of_position(setup: Setup) -> None:
    store, sealer = setup.store(), setup.sealer()
    store.append([command(f"e{number}", aggregate_id=f"o-{number % 3}") for number in range(10)])
    if setup.engine == "postgres":
        assert store.read_log().events == []  # The sealer has not seen their commits yet.
    sealer.step()
    page = store.read_log(from_position=1, limit=4)
    assert [event.position for event in page.events] == [1, 2, 3, 4]
    rest = store.read_log(from_position=page.next_position)
    assert [event.position for event in rest.events] == [5, 6, 7, 8, 9, 10]
    assert (rest.next_position, store.log_end()) == (11, 10)
    assert store.read_log(from_position=11) == store.read_log(from_position=11, limit=1)


@pytest.mark.clause("S8")
def test_time_is_a_way_to_find_events_and_not_their_order(setup: Setup) -> None:
    store, sealer = setup.store(), setup.sealer()
    for number, seconds in enumerate([5, 1, 3, 1, 9]):
        store.append([command(f"e{number}", occurred_at=after(seconds))])
    sealer.step()
    assert [event.event_id for event in store.read_log().events] == ["e0", "e1", "e2", "e3", "e4"]
    page = store.read_time(after(1), after(9), limit=2)
    assert [event.event_id for event in page.events] == ["e1", "e3"]
    rest = store.read_time(after(1), after(9), after=page.after)
    assert [event.event_id for event in rest.events] == ["e2", "e0"]
    assert rest.after is None


@pytest.mark.clause("S8")
def test_what_was_trimmed_reads_as_before(setup: Setup) -> None:
    store, sealer = setup.store(), setup.sealer(trim=True, segment_events_max=4)
    store.append([command(f"e{number}", payload={"n": number}) for number in range(10)])
    before = store.read_aggregate("order", "o-1")
    sealer.step(flush=True)
    trimmed = store.read_aggregate("order", "o-1")
    assert [event.payload for event in trimmed.events] == [event.payload for event in before.events]
    assert [event.metadata for event in trimmed.events] == [event.metadata for event in before.events]
    assert store.read_log().events == trimmed.events
    assert store.read_time(after(-(10**8)), after(10**8)).events == trimmed.events


@pytest.mark.clause("S4", "S5")
def test_what_was_trimmed_is_still_a_duplicate(setup: Setup) -> None:
    store, sealer = setup.store(), setup.sealer(trim=True)
    first = store.append([command("a"), command("b")])
    sealer.step(flush=True)
    again = store.append([command("a"), command("b")])
    assert [answer.sequence_number for answer in again] == [answer.sequence_number for answer in first]
    assert all(answer.duplicate for answer in again)


@pytest.mark.clause("S1")
@pytest.mark.parametrize("limit", [0, -1, 10_001])
def test_a_page_has_a_size(store: EventStore, limit: int) -> None:
    with pytest.raises(InvalidArgument):
        store.read_log(limit=limit)


@pytest.mark.clause("S1", "X7")
@pytest.mark.parametrize("wrong", ["a\0b", "\ud800"])
def test_a_name_that_cannot_be_stored_cannot_be_asked_for(store: EventStore, wrong: str) -> None:
    with pytest.raises(InvalidArgument):
        store.read_aggregate("order", wrong)
    with pytest.raises(InvalidArgument):
        store.append([command("a", aggregate_id=wrong)])


@pytest.mark.clause("Y3", "S8")
def test_the_log_of_some_types_has_gaps_and_full_pages(setup: Setup) -> None:
    """A tenant's view of the log: a page is never cut to what others have."""
    store, sealer = setup.store(), setup.sealer()
    kinds = ["order", "ship", "ship", "order", "bill", "ship", "order"]
    store.append([command(f"e{number}", aggregate_type=kind) for number, kind in enumerate(kinds)])
    sealer.step()
    positions = {event.event_id: event.position or 0 for event in store.read_log().events}
    orders = [positions[f"e{number}"] for number, kind in enumerate(kinds) if kind == "order"]
    page = store.read_log(limit=2, wanted=EventFilter(types=("order",)))
    assert [event.position for event in page.events] == sorted(orders)[:2]
    rest = store.read_log(from_position=page.next_position, wanted=EventFilter(types=("order",)))
    assert [event.position for event in rest.events] == sorted(orders)[2:]
    stored = store.read_stored(wanted=EventFilter(types=("bill", "order"))).events
    assert {event.aggregate_type for event in stored} == {"bill", "order"}
    assert store.read_log(wanted=EventFilter(types=())).events == []
    assert [store.has_type(name) for name in ("order", "Order", "none")] == [True, False, False]

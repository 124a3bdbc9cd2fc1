"""Parked events: stored, found and removed in sets, by whoever has their aggregate."""

import pytest

from driftq.model import Aggregate
from driftq.registry import Resolution
from driftq.registry.parking import ParkedEvent, Parking
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import BILLING, LEASE_MS, MAIL, event, finish

HANDLER = BILLING.name
ORDERS = 1_300
"""More than one statement takes."""


@pytest.fixture
def parking(database: Database, registry: SqlRegistry) -> Parking:
    return Parking(database)


def text(name: str, *, partition: int = 0, offset: int = 0) -> ParkedEvent:
    return ParkedEvent(topic="orders", partition=partition, offset=offset, value=name, identity="driftq/7")


def park(parking: Parking, *places: tuple[str, int], handler: str = HANDLER) -> None:
    """Events by aggregate and sequence, each from a partition of its own."""
    parking.park(
        handler,
        [
            (event(sequence, of=of), text(f"{of}{sequence}", partition=nth, offset=sequence))
            for nth, (of, sequence) in enumerate(places)
        ],
    )


def waiting(parking: Parking, *names: str, most_each: int = 32, handler: str = HANDLER) -> list[str]:
    found = parking.waiting(handler, [Aggregate("order", name) for name in names], most_each=most_each)
    return [parked.message.value for parked in found]


@pytest.mark.clause("K8")
def test_an_aggregate_has_its_own_parked_events_from_any_partition_and_in_order(parking: Parking) -> None:
    park(parking, ("a", 4), ("b", 2), ("a", 2), ("a", 3), ("c", 9))
    park(parking, ("a", 7), handler="search")
    assert waiting(parking, "a") == ["a2", "a3", "a4"]
    assert sorted(waiting(parking, "b", "c", "none")) == ["b2", "c9"]
    assert waiting(parking, "a", most_each=2) == ["a2", "a3"]
    assert waiting(parking, "a", handler="search") == ["a7"]
    [parked] = parking.waiting(HANDLER, [Aggregate("order", "c")], most_each=1)
    assert parked == (Aggregate("order", "c"), 9, 0, text("c9", partition=4, offset=9))


@pytest.mark.clause("K8")
def test_what_an_aggregate_has_reached_waits_no_longer(parking: Parking, registry: SqlRegistry) -> None:
    park(parking, ("a", 2), ("a", 3), ("a", 4))
    finish(registry, BILLING, 1, 2, of="a")
    assert waiting(parking, "a") == ["a3", "a4"]
    found = parking.waiting(HANDLER, [Aggregate("order", "a")], most_each=32)
    assert {one.last_sequence for one in found} == {2}


@pytest.mark.clause("K3", "K8")
def test_what_others_have_to_settle_is_left_to_them(
    parking: Parking, registry: SqlRegistry, clock: VirtualClock
) -> None:
    park(parking, ("held", 1), ("failed", 1), ("given-back", 1))
    park(parking, ("unsure", 1), ("unsure", 2), handler=MAIL.name)
    registry.claim(BILLING, event(of="held"))
    failure = registry.mark_failed(registry.claim(BILLING, event(of="failed")), error="no")
    registry.release(registry.claim(BILLING, event(of="given-back")))
    registry.mark_unknown(registry.claim(MAIL, event(of="unsure")), error="who knows")
    assert waiting(parking, "held", "failed", "given-back") == ["given-back1"]
    assert waiting(parking, "unsure", handler=MAIL.name) == ["unsure2"], "and it cannot go on"
    clock.advance(ms=max(LEASE_MS, failure.retry_in_ms))
    assert sorted(waiting(parking, "held", "failed", "given-back")) == ["failed1", "given-back1", "held1"]


@pytest.mark.clause("K2")
def test_many_are_parked_and_removed_at_once_and_the_first_copy_stays(parking: Parking) -> None:
    names = [f"o{nth}" for nth in range(ORDERS)]
    park(parking, *((name, 2) for name in names))
    parking.park(HANDLER, [(event(2, of="o7"), text("another copy"))])
    assert parking.count(HANDLER) == ORDERS
    assert waiting(parking, "o7") == ["o72"]
    parking.unpark(HANDLER, [event(2, of=name).event_id for name in names[1:]] + ["never parked"])
    assert (parking.count(HANDLER), waiting(parking, *names)) == (1, ["o02"])


@pytest.mark.clause("K2")
def test_a_removal_in_a_transaction_is_kept_or_dropped_with_it(parking: Parking, database: Database) -> None:
    park(parking, ("a", 2), ("b", 2))
    with pytest.raises(RuntimeError), database.transaction() as transaction:
        parking.unpark(HANDLER, [event(2, of="a").event_id], transaction=transaction)
        raise RuntimeError
    assert parking.count(HANDLER) == 2
    with database.transaction() as transaction:
        parking.unpark(HANDLER, [event(2, of="a").event_id], transaction=transaction)
    assert parking.count(HANDLER) == 1


@pytest.mark.clause("K8", "X2")
def test_a_start_finds_everything_that_is_ready_page_by_page(parking: Parking, registry: SqlRegistry) -> None:
    """Whoever made these ready has ended: they are found by nobody's change."""
    finish(registry, BILLING, 1, of="moved")
    requeued = registry.claim(BILLING, event(1, of="requeued"))
    registry.mark_failed(requeued, error="no", retryable=False)
    registry.requeue(HANDLER, requeued.event.event_id, by="ada")
    dead = registry.claim(BILLING, event(1, of="dead"))
    registry.mark_failed(dead, error="no", retryable=False)
    done = registry.claim(BILLING, event(1, of="done"))
    registry.mark_done(done)
    park(
        parking,
        *(("moved", 2), ("moved", 3), ("first", 1), ("early", 2), ("requeued", 1), ("dead", 1), ("done", 1)),
    )
    pages = list(parking.ready(HANDLER, limit=2))
    assert [len(page) for page in pages] == [2, 2]
    assert [found.message.value for page in pages for found in page] == [
        "done1",
        "first1",
        "moved2",
        "requeued1",
    ]


@pytest.mark.clause("K6", "K8")
@pytest.mark.parametrize("resolution", [Resolution.DONE, Resolution.DEAD])
def test_a_resolved_event_wakes_those_that_waited_for_it(
    parking: Parking, registry: SqlRegistry, clock: VirtualClock, resolution: Resolution
) -> None:
    name = MAIL.name
    registry.mark_unknown(registry.claim(MAIL, event(1, of="a")), error="who knows")
    park(parking, ("a", 1), ("a", 2), ("a", 3), ("b", 2), handler=name)
    assert parking.woken(name) == []
    registry.resolve(name, event(1, of="a").event_id, resolution, by="ada")
    woken = parking.woken(name)
    wanted = ["a1", "a2"] if resolution is Resolution.DONE else ["a2"]
    assert [found.message.value for found in woken] == wanted, "a dead letter stays parked"
    clock.advance(ms=1)
    registry.skip_to(name, aggregate_type="order", aggregate_id="a", sequence=2)
    parking.rest(name, woken)
    assert "a3" in [found.message.value for found in parking.woken(name)], "woken since they were listed"
    parking.rest(name, parking.woken(name))
    assert parking.woken(name) == []


@pytest.mark.clause("K5", "K6", "X6")
def test_parked_events_whose_claims_come_back_are_found_by_their_claims(
    parking: Parking, registry: SqlRegistry, clock: VirtualClock
) -> None:
    park(parking, ("dead", 1), ("dead", 2), ("held", 1), ("failed", 1), ("early", 4))
    registry.mark_failed(registry.claim(BILLING, event(of="dead")), error="no", retryable=False)
    finish(registry, BILLING, 2, of="dead")
    registry.claim(BILLING, event(of="held"))
    registry.mark_failed(registry.claim(BILLING, event(of="failed")), error="no")
    assert parking.returned(HANDLER) == []
    registry.requeue(HANDLER, event(of="dead").event_id, by="ada")
    assert [found.message.value for found in parking.returned(HANDLER)] == ["dead1"]
    clock.advance(ms=max(LEASE_MS, 60_000))
    assert [found.message.value for found in parking.returned(HANDLER)] == ["dead1", "failed1", "held1"]

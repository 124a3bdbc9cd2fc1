"""Many at once behave as each for itself."""

import pytest

from driftq.registry import ClaimOutcome, EventKey, Wait
from driftq.registry.sql_registry import SqlRegistry
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import BILLING, LEASE_MS, MAIL, SEARCH, event, finish, reached


@pytest.mark.clause("K1")
def test_each_event_of_a_batch_has_its_own_outcome(registry: SqlRegistry, other: SqlRegistry) -> None:
    finish(registry, SEARCH, 5, of="a")
    other.claim(SEARCH, event(1, of="b"))
    batch = [event(5, of="a"), event(4, of="a"), event(1, of="b"), event(1, of="c"), event(6, of="a")]
    outcomes = [claim.outcome.value for claim in registry.claim_all(SEARCH, batch)]
    assert outcomes == ["duplicate_done", "stale", "in_progress", "claimed", "claimed"]


@pytest.mark.clause("K1")
def test_an_event_twice_in_a_batch_is_claimed_once(registry: SqlRegistry) -> None:
    first, second = registry.claim_all(SEARCH, [event(), event()])
    assert (first.outcome, second.outcome) == (ClaimOutcome.CLAIMED, ClaimOutcome.IN_PROGRESS)


@pytest.mark.clause("K8")
def test_an_ordered_batch_gives_the_next_event_of_each_aggregate(registry: SqlRegistry) -> None:
    batch = [event(2, of="a"), event(1, of="a"), event(1, of="b"), event(2, of="b")]
    claims = registry.claim_all(BILLING, batch)
    assert [claim.granted for claim in claims] == [False, True, True, False]
    assert claims[0].wait is Wait.PREDECESSOR
    assert registry.mark_done_all([claim for claim in claims if claim.granted]) == []
    assert [claim.granted for claim in registry.claim_all(BILLING, batch)] == [True, False, False, True]


@pytest.mark.clause("K1", "K4")
def test_a_large_batch_is_claimed_and_finished_whole(registry: SqlRegistry) -> None:
    events = [
        EventKey(f"e{number}", "order", f"order-{number % 50}", 1 + number // 50) for number in range(200)
    ]
    claims = registry.claim_all(SEARCH, events)
    assert all(claim.granted for claim in claims)
    tokens: dict[str, list[int]] = {}
    for claim in claims:
        tokens.setdefault(claim.event.aggregate_id, []).append(claim.token)
    assert all(len(set(drawn)) == len(drawn) for drawn in tokens.values())
    assert registry.heartbeat_all(claims) == []
    assert registry.mark_done_all(claims) == []
    assert {reached(registry, SEARCH, of=f"order-{number}") for number in range(50)} == {4}
    again = registry.claim_all(SEARCH, events)
    assert {claim.outcome for claim in again} == {ClaimOutcome.DUPLICATE_DONE}


@pytest.mark.clause("K4")
def test_lost_claims_do_not_stop_the_others_of_a_batch(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock
) -> None:
    claims = registry.claim_all(SEARCH, [event(of="a"), event(of="b"), event(of="c")])
    clock.advance(ms=LEASE_MS)
    other.claim(SEARCH, event(of="b"))
    assert registry.mark_done_all(claims) == [claims[1]]
    assert [reached(registry, SEARCH, of=name) for name in "abc"] == [1, 0, 1]


@pytest.mark.clause("K1")
def test_claims_of_several_handlers_finish_together(registry: SqlRegistry) -> None:
    claims = [registry.claim(handler, event()) for handler in (SEARCH, BILLING, MAIL)]
    assert registry.heartbeat_all(claims) == []
    assert registry.mark_done_all(claims) == []
    assert [reached(registry, handler) for handler in (SEARCH, BILLING, MAIL)] == [1, 1, 1]
    assert registry.claim_all(SEARCH, []) == []
    assert registry.mark_done_all([]) == []

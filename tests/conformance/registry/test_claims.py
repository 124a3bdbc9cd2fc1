"""A claim has four outcomes, a lease and a token, and only the token in force can finish it."""

import pytest

from driftq.errors import ClaimNotFound, InvalidArgument, LeaseLost
from driftq.registry import ClaimOutcome, ClaimState, Effect, EventKey, Handler, Wait
from driftq.registry.sql_registry import SqlRegistry
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import BILLING, LEASE_MS, SEARCH, event, finish, reached
from tests.conformance.registry.conftest import OpenDatabase


@pytest.mark.clause("K1")
def test_a_fresh_event_is_claimed_and_after_mark_done_it_is_a_duplicate(registry: SqlRegistry) -> None:
    claim = registry.claim(BILLING, event())
    assert (claim.outcome, claim.attempt) == (ClaimOutcome.CLAIMED, 1)
    assert reached(registry, BILLING) == 0
    registry.mark_done(claim)
    assert reached(registry, BILLING) == 1
    assert registry.claim(BILLING, event()).outcome is ClaimOutcome.DUPLICATE_DONE


@pytest.mark.clause("K1", "X4")
def test_an_event_not_above_the_last_sequence_is_stale(registry: SqlRegistry) -> None:
    finish(registry, SEARCH, 7)
    for sequence in (1, 6):
        assert registry.claim(SEARCH, event(sequence)).outcome is ClaimOutcome.STALE
    assert registry.claim(SEARCH, EventKey("another", "order", "order-1", 7)).outcome is ClaimOutcome.STALE
    assert registry.claim(SEARCH, event(8)).outcome is ClaimOutcome.CLAIMED


@pytest.mark.clause("K1")
def test_handlers_and_aggregates_do_not_know_of_each_other(registry: SqlRegistry) -> None:
    finish(registry, BILLING, 1, 2)
    assert registry.claim(SEARCH, event(1)).granted
    assert registry.claim(BILLING, event(1, of="order-2")).granted
    assert registry.claim(BILLING, event(1, kind="invoice")).granted


@pytest.mark.clause("K1", "K3")
def test_a_held_event_is_in_progress_and_that_costs_nothing(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock
) -> None:
    registry.claim(BILLING, event())
    clock.advance(ms=1000)
    for _ in range(10):
        waiting = other.claim(BILLING, event())
        assert (waiting.outcome, waiting.wait) == (ClaimOutcome.IN_PROGRESS, Wait.HELD)
        assert waiting.wait_ms == LEASE_MS - 1000
    stored = registry.find(BILLING.name, event().event_id)
    assert (stored.attempts, stored.owner, stored.token) == (1, "first", 1)


@pytest.mark.clause("K1", "K4")
def test_a_lapsed_lease_goes_to_another_with_a_newer_token(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock
) -> None:
    first = registry.claim(BILLING, event())
    clock.advance(ms=LEASE_MS - 1)
    assert not other.claim(BILLING, event()).granted
    clock.advance(ms=1)
    second = other.claim(BILLING, event())
    assert (second.granted, second.attempt) == (True, 2)
    assert second.token > first.token
    for finishing in (registry.mark_done, registry.heartbeat, registry.release):
        with pytest.raises(LeaseLost) as lost:
            finishing(first)
        assert (lost.value.held, lost.value.given) == (second.token, first.token)
    with pytest.raises(LeaseLost):
        registry.mark_failed(first, error="too late")
    assert reached(registry, BILLING) == 0
    other.mark_done(second)
    assert reached(registry, BILLING) == 1


@pytest.mark.clause("K4")
def test_an_owner_name_fences_nothing(open_again: OpenDatabase, clock: VirtualClock) -> None:
    twins = [SqlRegistry(open_again(clock), owner="worker") for _ in range(2)]
    first = twins[0].claim(BILLING, event())
    assert twins[1].claim(BILLING, event()).outcome is ClaimOutcome.IN_PROGRESS
    clock.advance(ms=LEASE_MS)
    twins[1].claim(BILLING, event())
    with pytest.raises(LeaseLost):
        twins[0].mark_done(first)


@pytest.mark.clause("K4")
def test_tokens_grow_over_the_events_of_an_aggregate(registry: SqlRegistry, clock: VirtualClock) -> None:
    tokens = []
    for sequence in (1, 2, 3):
        registry.claim(BILLING, event(sequence))
        clock.advance(ms=LEASE_MS)
        claim = registry.claim(BILLING, event(sequence))
        tokens.append(claim.token)
        registry.mark_done(claim)
    assert tokens == sorted(set(tokens))


@pytest.mark.clause("K1")
def test_a_heartbeat_extends_the_lease_from_now(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock
) -> None:
    claim = registry.claim(BILLING, event())
    for _ in range(3):
        clock.advance(ms=LEASE_MS - 1)
        registry.heartbeat(claim)
        assert other.claim(BILLING, event()).wait_ms == LEASE_MS
    assert registry.heartbeat_all([claim]) == []
    clock.advance(ms=LEASE_MS)
    taken = other.claim(BILLING, event())
    assert registry.heartbeat_all([claim]) == [claim]
    assert other.heartbeat_all([taken]) == []


@pytest.mark.clause("K4")
def test_whoever_still_has_the_token_may_finish_after_the_lease(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock
) -> None:
    """Nobody took over, so the effect is known best by the one who performed it."""
    claim = registry.claim(BILLING, event())
    clock.advance(ms=LEASE_MS * 2)
    registry.mark_done(claim)
    assert other.claim(BILLING, event()).outcome is ClaimOutcome.DUPLICATE_DONE


@pytest.mark.clause("K1")
def test_a_repeated_mark_done_changes_nothing(registry: SqlRegistry) -> None:
    claim = registry.claim(BILLING, event())
    registry.mark_done(claim)
    registry.mark_done(claim)
    assert registry.find(BILLING.name, event().event_id).state is ClaimState.DONE
    with pytest.raises(LeaseLost) as lost:
        registry.mark_failed(claim, error="no")
    assert lost.value.held is None


@pytest.mark.clause("K1")
def test_last_sequence_never_goes_back(registry: SqlRegistry) -> None:
    late = registry.claim(SEARCH, event(3))
    finish(registry, SEARCH, 9)
    registry.mark_done(late)
    assert reached(registry, SEARCH) == 9


@pytest.mark.clause("K7")
def test_a_released_claim_is_uncharged_and_free_at_once(registry: SqlRegistry, other: SqlRegistry) -> None:
    claim = registry.claim(BILLING, event())
    registry.release(claim)
    registry.release(claim)
    assert registry.find(BILLING.name, event().event_id).attempts == 0
    again = other.claim(BILLING, event())
    assert (again.granted, again.attempt) == (True, 1)


@pytest.mark.clause("K1")
def test_the_database_tells_the_time_when_no_clock_is_given(open_again: OpenDatabase) -> None:
    brief = Handler("brief", Effect.IDEMPOTENT, lease_ms=40)
    registry = SqlRegistry(open_again(None))
    first = registry.claim(brief, event())
    while not (second := registry.claim(brief, event())).granted:
        assert 0 < second.wait_ms <= 40
    assert second.lease_until >= first.lease_until + 40
    assert second.token > first.token


@pytest.mark.clause("K1")
def test_an_event_id_names_one_event(registry: SqlRegistry) -> None:
    registry.claim(BILLING, EventKey("e", "order", "order-1", 1))
    with pytest.raises(InvalidArgument):
        registry.claim(BILLING, EventKey("e", "order", "order-2", 1))
    with pytest.raises(InvalidArgument):
        registry.claim(BILLING, EventKey("f", "order", "order-1", 0))


def test_what_was_never_claimed_is_not_found(registry: SqlRegistry) -> None:
    with pytest.raises(ClaimNotFound):
        registry.find("nobody", "nothing")
    registry.check()

"""What happens to an event whose neighbours are missing, late, held or given up."""

import pytest

from driftq.registry import ClaimOutcome, Wait
from driftq.registry.sql_registry import SqlRegistry
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import BILLING, SEARCH, event, finish, reached


@pytest.mark.clause("K8")
def test_ordered_waits_for_what_is_missing(registry: SqlRegistry) -> None:
    waiting = registry.claim(BILLING, event(3))
    assert (waiting.outcome, waiting.wait) == (ClaimOutcome.IN_PROGRESS, Wait.PREDECESSOR)
    finish(registry, BILLING, 1)
    assert registry.claim(BILLING, event(3)).wait is Wait.PREDECESSOR
    finish(registry, BILLING, 2, 3)
    assert reached(registry, BILLING) == 3


@pytest.mark.clause("K8")
def test_ordered_waits_for_what_is_claimed_or_failed(registry: SqlRegistry, clock: VirtualClock) -> None:
    claim = registry.claim(BILLING, event(1))
    assert registry.claim(BILLING, event(2)).wait is Wait.PREDECESSOR
    failure = registry.mark_failed(claim, error="no")
    assert registry.claim(BILLING, event(2)).wait is Wait.PREDECESSOR
    clock.advance(ms=failure.retry_in_ms)
    finish(registry, BILLING, 1)
    assert registry.claim(BILLING, event(2)).granted


@pytest.mark.clause("K8", "K5", "K5c")
def test_ordered_goes_on_when_the_earlier_one_is_parked(registry: SqlRegistry) -> None:
    registry.mark_failed(registry.claim(BILLING, event(1)), error="no", retryable=False)
    assert registry.claim(BILLING, event(2)).granted


@pytest.mark.clause("K8")
def test_full_state_takes_what_is_newer_and_ignores_gaps(registry: SqlRegistry) -> None:
    finish(registry, SEARCH, 2, 5)
    assert registry.claim(SEARCH, event(4)).outcome is ClaimOutcome.STALE
    finish(registry, SEARCH, 9)
    assert reached(registry, SEARCH) == 9


@pytest.mark.clause("K8", "K5")
def test_full_state_does_not_take_a_parked_event_for_done(registry: SqlRegistry) -> None:
    registry.mark_failed(registry.claim(SEARCH, event(5)), error="no", retryable=False)
    assert reached(registry, SEARCH) == 0
    assert registry.claim(SEARCH, event(4)).granted


@pytest.mark.clause("K8")
def test_full_state_drops_the_retry_of_what_was_overtaken(registry: SqlRegistry) -> None:
    registry.mark_failed(registry.claim(SEARCH, event(1)), error="no")
    finish(registry, SEARCH, 2)
    assert registry.claim(SEARCH, event(1)).outcome is ClaimOutcome.STALE
    assert registry.counts(SEARCH.name) == {}


@pytest.mark.clause("K8")
def test_a_handler_that_joins_late_can_skip_what_is_gone(registry: SqlRegistry) -> None:
    where = {"aggregate_type": "order", "aggregate_id": "order-1"}
    registry.skip_to(BILLING.name, sequence=41, **where)
    assert registry.claim(BILLING, event(41)).outcome is ClaimOutcome.STALE
    finish(registry, BILLING, 42)
    registry.skip_to(BILLING.name, sequence=7, **where)
    assert reached(registry, BILLING) == 42

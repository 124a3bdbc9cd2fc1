"""What an effect gave is kept with its mark, and never without it."""

import pytest

from driftq.errors import LeaseLost
from driftq.registry import ClaimOutcome
from driftq.registry.sql_registry import SqlRegistry
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import BILLING, LEASE_MS, event

RESULT = '{"charged":"é\\u0000"}'


@pytest.mark.clause("I8", "K1")
def test_a_duplicate_finds_what_the_first_run_gave(registry: SqlRegistry, other: SqlRegistry) -> None:
    claim = registry.claim(BILLING, event())
    assert registry.result_of(BILLING.name, event().event_id) is None
    registry.mark_done(claim, result=RESULT)
    registry.mark_done(claim, result=RESULT)  # The answer was lost: said again, it changes nothing.
    assert other.claim(BILLING, event()).outcome is ClaimOutcome.DUPLICATE_DONE
    assert other.result_of(BILLING.name, event().event_id) == RESULT


@pytest.mark.clause("I8", "K6")
def test_a_transactional_result_is_kept_or_dropped_with_its_effect(registry: SqlRegistry) -> None:
    claim = registry.claim(BILLING, event())
    with pytest.raises(ZeroDivisionError), registry.apply(claim) as transaction:
        registry.keep_result(claim, RESULT, transaction=transaction)
        raise ZeroDivisionError
    assert registry.result_of(BILLING.name, event().event_id) is None
    with registry.apply(claim) as transaction:
        registry.keep_result(claim, RESULT, transaction=transaction)
    assert registry.result_of(BILLING.name, event().event_id) == RESULT


@pytest.mark.clause("I8", "K4")
def test_whoever_lost_the_lease_leaves_no_result(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock
) -> None:
    late = registry.claim(BILLING, event())
    clock.advance(ms=LEASE_MS)
    newer = other.claim(BILLING, event())
    with pytest.raises(LeaseLost):
        registry.mark_done(late, result='"late"')
    other.mark_done(newer, result=RESULT)
    with pytest.raises(LeaseLost):
        registry.mark_done(late, result='"late"')
    assert registry.result_of(BILLING.name, event().event_id) == RESULT

"""An effect of which nobody knows is never repeated and never taken for done: somebody has to say."""

import pytest

from driftq.errors import LeaseLost, WrongClaimState
from driftq.registry import ClaimOutcome, ClaimState, Resolution, Wait
from driftq.registry.sql_registry import SqlRegistry
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import LEASE_MS, MAIL, event, reached


@pytest.fixture
def abandoned(registry: SqlRegistry, clock: VirtualClock) -> str:
    """The id of an event whose worker went silent."""
    registry.claim(MAIL, event())
    clock.advance(ms=LEASE_MS)
    return event().event_id


@pytest.mark.clause("K6")
def test_an_abandoned_claim_becomes_unknown_and_waits(other: SqlRegistry, abandoned: str) -> None:
    for _ in range(3):
        waiting = other.claim(MAIL, event())
        assert (waiting.outcome, waiting.state) == (ClaimOutcome.IN_PROGRESS, ClaimState.UNKNOWN)
        assert waiting.wait is Wait.UNRESOLVED
    [unknown] = other.list_claims(ClaimState.UNKNOWN)
    assert (unknown.event_id, unknown.attempts, unknown.reason) == (abandoned, 1, "lease_expired")
    assert other.claim(MAIL, event(2)).wait is Wait.PREDECESSOR


@pytest.mark.clause("K6")
def test_it_is_reported_without_being_delivered_again(other: SqlRegistry, abandoned: str) -> None:
    assert other.report_unknown() == 1
    assert other.report_unknown() == 0
    assert [claim.event_id for claim in other.list_claims(ClaimState.UNKNOWN)] == [abandoned]
    assert other.due(MAIL.name) == []


@pytest.mark.clause("K6")
def test_resolved_as_done(other: SqlRegistry, abandoned: str) -> None:
    other.report_unknown()
    stored = other.resolve(MAIL.name, abandoned, Resolution.DONE, by="ann")
    assert (stored.state, stored.reason) == (ClaimState.DONE, "resolved as done by ann")
    assert reached(other, MAIL) == 1
    assert other.claim(MAIL, event()).outcome is ClaimOutcome.DUPLICATE_DONE
    assert other.claim(MAIL, event(2)).granted


@pytest.mark.clause("K6")
def test_resolved_to_be_tried_again(registry: SqlRegistry, other: SqlRegistry, abandoned: str) -> None:
    other.report_unknown()
    other.resolve(MAIL.name, abandoned, Resolution.RETRY, by="ann")
    claim = registry.claim(MAIL, event())
    assert (claim.granted, claim.attempt) == (True, 1)


@pytest.mark.clause("K6")
def test_resolved_as_a_dead_letter(other: SqlRegistry, abandoned: str) -> None:
    other.report_unknown()
    other.resolve(MAIL.name, abandoned, Resolution.DEAD, by="ann")
    assert other.claim(MAIL, event(2)).granted
    assert other.requeue(MAIL.name, abandoned, by="ann").state is ClaimState.READY


@pytest.mark.clause("K6")
def test_only_what_is_unknown_can_be_resolved(registry: SqlRegistry) -> None:
    registry.claim(MAIL, event())
    with pytest.raises(WrongClaimState):
        registry.resolve(MAIL.name, event().event_id, Resolution.DONE, by="ann")


@pytest.mark.clause("K6")
def test_a_worker_that_cannot_tell_says_so(registry: SqlRegistry, clock: VirtualClock) -> None:
    claim = registry.claim(MAIL, event())
    registry.mark_unknown(claim, error="timed out")
    registry.mark_unknown(claim, error="timed out")
    stored = registry.find(MAIL.name, event().event_id)
    assert (stored.state, stored.last_error, stored.reason) == (ClaimState.UNKNOWN, "timed out", "reported")
    with pytest.raises(LeaseLost):
        registry.mark_done(claim)


@pytest.mark.clause("K6")
def test_a_failure_that_the_handler_reports_is_retried(registry: SqlRegistry, clock: VirtualClock) -> None:
    failure = registry.mark_failed(registry.claim(MAIL, event()), error="refused")
    clock.advance(ms=failure.retry_in_ms)
    assert registry.claim(MAIL, event()).attempt == 2

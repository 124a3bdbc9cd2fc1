"""Finished claims may be forgotten, their sequence never is."""

import pytest

from driftq.errors import InvalidArgument
from driftq.registry import ClaimOutcome, ClaimState, EventKey
from driftq.registry.processed_jobs import WEEK_MS, ProcessedJobs
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import BILLING, MAIL, SEARCH, event, finish, reached

HOUR_MS = 3_600_000


@pytest.mark.clause("K1")
def test_a_forgotten_event_stays_stale(registry: SqlRegistry, clock: VirtualClock) -> None:
    finish(registry, BILLING, 1, 2)
    clock.advance(ms=HOUR_MS)
    finish(registry, BILLING, 3)
    assert registry.forget(older_than_ms=HOUR_MS) == 2
    assert reached(registry, BILLING) == 3
    outcomes = [registry.claim(BILLING, event(sequence)).outcome for sequence in (1, 2, 3)]
    assert outcomes == [ClaimOutcome.STALE, ClaimOutcome.STALE, ClaimOutcome.DUPLICATE_DONE]


@pytest.mark.clause("K1", "K5")
def test_only_finished_claims_are_forgotten(registry: SqlRegistry, clock: VirtualClock) -> None:
    registry.claim(BILLING, event(of="claimed"))
    registry.mark_failed(registry.claim(BILLING, event(of="failed")), error="no")
    registry.mark_failed(registry.claim(BILLING, event(of="dead")), error="no", retryable=False)
    registry.mark_unknown(registry.claim(MAIL, event(of="unknown")), error="no")
    registry.release(registry.claim(BILLING, event(of="ready")))
    finish(registry, SEARCH, 1)
    clock.advance(ms=HOUR_MS)
    assert registry.forget(older_than_ms=HOUR_MS) == 1
    left = [claim for state in ClaimState for claim in registry.list_claims(state)]
    assert sorted(claim.aggregate_id for claim in left) == ["claimed", "dead", "failed", "ready", "unknown"]


@pytest.mark.clause("K1")
def test_forgetting_goes_in_steps(registry: SqlRegistry, clock: VirtualClock) -> None:
    claims = registry.claim_all(SEARCH, [EventKey(f"e{n}", "order", f"o{n}", 1) for n in range(25)])
    registry.mark_done_all(claims)
    clock.advance(ms=HOUR_MS)
    assert [registry.forget(older_than_ms=HOUR_MS, limit=10) for _ in range(4)] == [10, 10, 5, 0]
    with pytest.raises(InvalidArgument):
        registry.forget(older_than_ms=59_999)


@pytest.mark.clause("J12", "J12a")
def test_a_completed_job_is_remembered_for_a_week(database: Database, clock: VirtualClock) -> None:
    jobs = ProcessedJobs(database, scope="mail")
    assert jobs.find("job-1") is None
    assert jobs.record("job-1", result_hash="abc")
    completed_at = clock.now()
    clock.advance(ms=1)
    assert not jobs.record("job-1", result_hash="other")
    found = jobs.find("job-1")
    assert found is not None
    assert (found.result_hash, found.completed_at) == ("abc", completed_at)
    assert ProcessedJobs(database, scope="other").find("job-1") is None
    clock.advance(ms=WEEK_MS - 2)
    assert jobs.find("job-1") is not None
    clock.advance(ms=1)
    assert jobs.find("job-1") is None
    assert jobs.record("job-1", result_hash="new")


@pytest.mark.clause("J12", "J12c")
def test_completed_jobs_are_cleaned_up_after_their_time(database: Database, clock: VirtualClock) -> None:
    brief = ProcessedJobs(database, ttl_ms=1000)
    for number in range(5):
        brief.record(f"job-{number}")
    ProcessedJobs(database).record("job-kept")
    clock.advance(ms=1000)
    assert [brief.forget_expired(limit=3) for _ in range(3)] == [3, 2, 0]
    assert brief.find("job-kept") is not None


@pytest.mark.clause("J12", "J12b")
def test_a_completion_is_kept_or_dropped_with_the_jobs_own_changes(database: Database) -> None:
    jobs = ProcessedJobs(database)
    with pytest.raises(ZeroDivisionError), database.transaction() as transaction:
        assert jobs.record("job-1", transaction=transaction)
        assert jobs.find("job-1", transaction=transaction) is not None
        raise ZeroDivisionError
    assert jobs.find("job-1") is None

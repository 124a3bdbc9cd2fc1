"""A failed event comes back after its backoff, is parked after its last attempt, and can be requeued."""

from random import Random

import pytest

from driftq.errors import ClaimNotFound, WrongClaimState
from driftq.registry import Backoff, ClaimOutcome, ClaimState, Wait
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import BILLING, LEASE_MS, SEARCH, event, finish, reached


class Highest(Random):
    """Draws the longest delay that is allowed."""

    def random(self) -> float:
        return 1.0


def exhaust(registry: SqlRegistry, clock: VirtualClock, handler=BILLING, sequence: int = 1) -> None:
    for _ in range(handler.max_attempts):
        failure = registry.mark_failed(registry.claim(handler, event(sequence)), error="no")
        clock.advance(ms=failure.retry_in_ms)


@pytest.mark.clause("X6", "K1")
def test_a_failed_event_waits_for_its_backoff(database: Database, clock: VirtualClock) -> None:
    registry = SqlRegistry(database, random=Highest())
    for attempt, delay_ms in [(1, 1000), (2, 2000)]:
        claim = registry.claim(BILLING, event())
        assert claim.attempt == attempt
        failure = registry.mark_failed(claim, error=f"failure {attempt}")
        assert (failure.state, failure.retry_in_ms) == (ClaimState.FAILED, delay_ms)
        clock.advance(ms=delay_ms - 1)
        waiting = registry.claim(BILLING, event())
        assert (waiting.outcome, waiting.wait) == (ClaimOutcome.IN_PROGRESS, Wait.BACKOFF)
        assert (waiting.wait_ms, waiting.last_error) == (1, f"failure {attempt}")
        clock.advance(ms=1)
    assert registry.claim(BILLING, event()).attempt == 3


@pytest.mark.clause("K1")
def test_the_delay_is_drawn_from_nothing_to_the_doubled_base_up_to_the_cap() -> None:
    backoff = Backoff()
    limits = [backoff.limit_ms(retry) for retry in range(1, 9)]
    assert limits == [1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000]
    assert backoff.limit_ms(10_000) == 60_000
    random = Random(7)
    drawn = [backoff.full_jitter_ms(3, random.random()) for _ in range(2000)]
    assert min(drawn) < 100
    assert 3900 < max(drawn) <= 4000
    assert 1800 < sum(drawn) / len(drawn) < 2200


@pytest.mark.clause("X6", "K5", "K5a")
def test_n_retries_are_n_plus_one_attempts_and_then_a_dead_letter(
    registry: SqlRegistry, clock: VirtualClock
) -> None:
    for attempt in range(1, 4):
        claim = registry.claim(BILLING, event())
        assert claim.attempt == attempt
        assert reached(registry, BILLING) == 0
        failure = registry.mark_failed(claim, error=f"failure {attempt}")
        assert failure.state is (ClaimState.FAILED if attempt < 3 else ClaimState.DEAD)
        clock.advance(ms=failure.retry_in_ms)
    [letter] = registry.list_claims(ClaimState.DEAD)
    assert (letter.event_id, letter.attempts, letter.last_error) == (event().event_id, 3, "failure 3")
    assert (letter.reason, letter.finished_at) == ("max_attempts", clock.now())
    settled = registry.claim(BILLING, event())
    assert (settled.outcome, settled.state) == (ClaimOutcome.DUPLICATE_DONE, ClaimState.DEAD)


@pytest.mark.clause("K5", "K5a", "K5c")
def test_workers_that_die_of_an_event_use_up_its_attempts(registry: SqlRegistry, clock: VirtualClock) -> None:
    for attempt in range(1, 4):
        assert registry.claim(BILLING, event()).attempt == attempt
        clock.advance(ms=LEASE_MS)
    settled = registry.claim(BILLING, event())
    assert (settled.outcome, settled.state) == (ClaimOutcome.DUPLICATE_DONE, ClaimState.DEAD)
    assert registry.find(BILLING.name, event().event_id).last_error == "lease_expired"
    assert registry.claim(BILLING, event(2)).granted


@pytest.mark.clause("K5")
def test_what_cannot_be_retried_is_parked_at_once(registry: SqlRegistry) -> None:
    claim = registry.claim(BILLING, event())
    failure = registry.mark_failed(claim, error="malformed", retryable=False)
    assert (failure.state, failure.attempt) == (ClaimState.DEAD, 1)
    assert registry.find(BILLING.name, event().event_id).reason == "not_retryable"


@pytest.mark.clause("X6")
def test_a_repeated_mark_failed_is_counted_once(registry: SqlRegistry) -> None:
    claim = registry.claim(BILLING, event())
    first = registry.mark_failed(claim, error="no")
    assert registry.mark_failed(claim, error="no") == first
    assert registry.find(BILLING.name, event().event_id).attempts == 1


@pytest.mark.clause("X6")
def test_a_requeued_event_has_all_its_attempts_again(registry: SqlRegistry, clock: VirtualClock) -> None:
    exhaust(registry, clock)
    finish(registry, BILLING, 2)  # The aggregate has gone on without it.
    stored = registry.requeue(BILLING.name, event().event_id, by="ann")
    assert (stored.state, stored.attempts, stored.reason) == (ClaimState.READY, 0, "requeued by ann")
    assert [claim.event_id for claim in registry.due(BILLING.name)] == [event().event_id]
    claim = registry.claim(BILLING, event())
    assert (claim.granted, claim.attempt, claim.last_error) == (True, 1, "no")
    clock.advance(ms=registry.mark_failed(claim, error="again").retry_in_ms)
    registry.mark_done(registry.claim(BILLING, event()))
    assert reached(registry, BILLING) == 2
    assert registry.claim(BILLING, event()).outcome is ClaimOutcome.DUPLICATE_DONE


@pytest.mark.clause("X6", "K8")
def test_a_requeued_event_does_not_overwrite_a_newer_full_state(
    registry: SqlRegistry, clock: VirtualClock
) -> None:
    exhaust(registry, clock, SEARCH)
    finish(registry, SEARCH, 2)
    registry.requeue(SEARCH.name, event().event_id, by="ann")
    assert registry.claim(SEARCH, event()).outcome is ClaimOutcome.STALE
    assert registry.find(SEARCH.name, event().event_id).state is ClaimState.STALE


@pytest.mark.clause("X6")
def test_only_a_dead_letter_can_be_requeued(registry: SqlRegistry) -> None:
    registry.claim(BILLING, event())
    with pytest.raises(WrongClaimState) as wrong:
        registry.requeue(BILLING.name, event().event_id, by="ann")
    assert (wrong.value.state, wrong.value.asked) == (ClaimState.CLAIMED, "requeue")
    with pytest.raises(ClaimNotFound):
        registry.requeue(BILLING.name, "nothing", by="ann")


@pytest.mark.clause("X6")
def test_dead_letters_are_listed_page_by_page(registry: SqlRegistry) -> None:
    names = [f"order-{number}" for number in range(5)]
    for handler in (BILLING, SEARCH):
        for name in names:
            registry.mark_failed(registry.claim(handler, event(of=name)), error="no", retryable=False)
    first = registry.list_claims(ClaimState.DEAD, limit=7)
    rest = registry.list_claims(ClaimState.DEAD, limit=7, after=(first[-1].handler, first[-1].event_id))
    assert [(letter.handler, letter.aggregate_id) for letter in first + rest] == [
        (handler, name) for handler in ("billing", "search") for name in names
    ]
    assert len(registry.list_claims(ClaimState.DEAD, handler="search")) == 5
    assert registry.counts("search") == {ClaimState.DEAD: 5}


def test_an_error_of_any_kind_can_be_kept(registry: SqlRegistry) -> None:
    claim = registry.claim(BILLING, event())
    registry.mark_failed(claim, error="NUL \x00, half \ud800, long " + "x" * 100_000)
    kept = registry.find(BILLING.name, event().event_id).last_error
    assert kept.startswith("NUL \\x00, half \\ud800, long xxx")
    assert len(kept) < 5000

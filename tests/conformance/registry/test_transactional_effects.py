"""A handler's SQL and its mark are one transaction: both are kept or neither is."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from driftq.errors import EventSuperseded, LeaseLost, WrongClaimState
from driftq.registry import ClaimOutcome, ClaimState, Effect, GapPolicy, Handler
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database, Statement, Transaction
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import LEASE_MS, LEDGER, SEARCH, event, finish, reached

STATE = Handler("state", Effect.TRANSACTIONAL, GapPolicy.FULL_STATE, lease_ms=LEASE_MS)


@pytest.fixture
def book(database: Database) -> Callable[[Transaction, int], int]:
    """Writes one line into a table of the application."""
    with database.transaction() as transaction:
        made = Statement.of("make", "CREATE TABLE {book} (amount {bigint} NOT NULL)", database.renderer)
        transaction.run(made)
    line = Statement.of("line", "INSERT INTO {book} (amount) VALUES (:amount)", database.renderer)
    return lambda transaction, amount: transaction.run(line, amount=amount)


def total(database: Database) -> int:
    with database.snapshot() as transaction:
        found = database.renderer.render("SELECT coalesce(sum(amount), 0) FROM {book}")
        return int(transaction.connection.execute(text(found)).scalar_one())


@pytest.mark.clause("K6")
def test_effect_and_mark_are_kept_together(registry: SqlRegistry, database: Database, book) -> None:
    claim = registry.claim(LEDGER, event())
    with registry.apply(claim) as transaction:
        book(transaction, 10)
    assert total(database) == 10
    assert reached(registry, LEDGER) == 1
    with pytest.raises(WrongClaimState), registry.apply(claim):
        pytest.fail("the effect must not run a second time")


@pytest.mark.clause("K6")
def test_a_failing_handler_leaves_nothing(registry: SqlRegistry, database: Database, book) -> None:
    claim = registry.claim(LEDGER, event())
    with pytest.raises(ZeroDivisionError), registry.apply(claim) as transaction:
        book(transaction, 10 // 0)
    with pytest.raises(ZeroDivisionError), registry.apply(claim) as transaction:
        book(transaction, 10)
        raise ZeroDivisionError
    assert total(database) == 0
    assert registry.find(LEDGER.name, event().event_id).state is ClaimState.CLAIMED
    registry.mark_failed(claim, error="division")


@pytest.mark.clause("K4", "K6")
def test_a_lost_lease_cannot_apply(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock, database: Database, book
) -> None:
    first = registry.claim(LEDGER, event())
    clock.advance(ms=LEASE_MS)
    second = other.claim(LEDGER, event())
    with pytest.raises(LeaseLost), registry.apply(first):
        pytest.fail("the lease is lost")
    with other.apply(second) as transaction:
        book(transaction, 10)
    assert total(database) == 10


@pytest.mark.clause("K4", "K6")
def test_a_claim_lost_during_the_callers_own_transaction_undoes_it(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock, database: Database, book
) -> None:
    first = registry.claim(LEDGER, event())
    clock.advance(ms=LEASE_MS)
    other.claim(LEDGER, event())
    with pytest.raises(LeaseLost), database.transaction() as transaction:
        book(transaction, 10)
        registry.mark_done(first, transaction=transaction)
    assert total(database) == 0


@pytest.mark.clause("K8")
def test_an_overtaken_state_is_not_applied(registry: SqlRegistry, database: Database, book) -> None:
    older, newer = registry.claim_all(STATE, [event(1), event(2)])
    with registry.apply(newer) as transaction:
        book(transaction, 2)
    with pytest.raises(EventSuperseded) as superseded, registry.apply(older):
        pytest.fail("a newer state is there")
    assert (superseded.value.sequence, superseded.value.last_sequence) == (1, 2)
    assert registry.find(STATE.name, event(1).event_id).state is ClaimState.STALE
    assert total(database) == 2


@pytest.mark.clause("K1", "K6")
def test_claims_and_marks_can_join_one_transaction(registry: SqlRegistry, database: Database, book) -> None:
    """As a projection does: what was not there before is written and marked in one step."""
    finish(registry, SEARCH, 3)
    events = [event(2), event(3), event(4), event(1, of="order-2")]
    claims = []
    for expected in (2, 0):
        with database.transaction() as transaction:
            claims = registry.claim_all(SEARCH, events, transaction=transaction)
            fresh = [claim for claim in claims if claim.granted]
            for _ in fresh:
                book(transaction, 1)
            registry.mark_done_all(fresh, transaction=transaction)
        assert len(fresh) == expected
    assert total(database) == 2
    assert [claim.outcome for claim in claims] == [ClaimOutcome.STALE, *[ClaimOutcome.DUPLICATE_DONE] * 3]

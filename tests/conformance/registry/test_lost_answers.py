"""An answer that is lost with the connection costs neither the event nor the lease."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from driftq.errors import DatabaseUnavailable
from driftq.registry import ClaimOutcome, ClaimState, Effect, Handler
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database, Dialect, SqlRenderer, Transaction
from tests.conformance.registry.cast import BILLING, MAIL, event, reached


class ForgetfulDatabase:
    """Commits, and then loses the connection before it can say so, as often as it is told to."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.answers_to_lose = 0

    @property
    def dialect(self) -> Dialect:
        return self._database.dialect

    @property
    def renderer(self) -> SqlRenderer:
        return self._database.renderer

    @property
    def address(self) -> str:
        return self._database.address

    @contextmanager
    def transaction(self, *, planned_once: bool = False) -> Iterator[Transaction]:
        with self._database.transaction(planned_once=planned_once) as transaction:
            yield transaction
        if self.answers_to_lose:
            self.answers_to_lose -= 1
            raise DatabaseUnavailable(self.address, cause="lost", unconfirmed=True)

    @contextmanager
    def snapshot(self) -> Iterator[Transaction]:
        with self._database.snapshot() as transaction:
            yield transaction

    def check(self) -> None:
        self._database.check()

    def close(self) -> None:
        self._database.close()


@pytest.fixture
def forgetful(database: Database) -> ForgetfulDatabase:
    return ForgetfulDatabase(database)


@pytest.fixture
def unlucky(forgetful: ForgetfulDatabase) -> SqlRegistry:
    return SqlRegistry(forgetful, owner="unlucky")


@pytest.mark.clause("K7", "X8")
@pytest.mark.parametrize("handler", [BILLING, MAIL], ids=["idempotent", "unknown"])
def test_a_lost_grant_is_granted_again_uncharged(
    unlucky: SqlRegistry, forgetful: ForgetfulDatabase, other: SqlRegistry, handler: Handler
) -> None:
    for _ in range(2):
        forgetful.answers_to_lose = 1
        with pytest.raises(DatabaseUnavailable) as away:
            unlucky.claim(handler, event())
        assert away.value.unconfirmed
    assert other.claim(handler, event()).outcome is ClaimOutcome.IN_PROGRESS
    claim = unlucky.claim(handler, event())
    assert (claim.granted, claim.attempt) == (True, 1)
    assert unlucky.claim(handler, event()).outcome is ClaimOutcome.IN_PROGRESS
    unlucky.mark_done(claim)


@pytest.mark.clause("K7", "X8")
def test_a_lost_mark_can_be_made_again(unlucky: SqlRegistry, forgetful: ForgetfulDatabase) -> None:
    for sequence, mark in enumerate(["mark_done", "mark_failed", "release"], start=1):
        claim = unlucky.claim(BILLING, event(1, of=mark))
        forgetful.answers_to_lose = 1
        arguments = {"error": "no"} if mark == "mark_failed" else {}
        with pytest.raises(DatabaseUnavailable):
            getattr(unlucky, mark)(claim, **arguments)
        getattr(unlucky, mark)(claim, **arguments)
        stored = unlucky.find(BILLING.name, claim.event.event_id)
        assert (stored.state, stored.attempts) == [
            (ClaimState.DONE, 1),
            (ClaimState.FAILED, 1),
            (ClaimState.READY, 0),
        ][sequence - 1]
    assert reached(unlucky, BILLING, of="mark_done") == 1


@pytest.mark.clause("K6", "X8")
def test_an_effect_whose_commit_was_not_confirmed_is_found_done(
    unlucky: SqlRegistry, forgetful: ForgetfulDatabase
) -> None:
    ledger = Handler("ledger", Effect.TRANSACTIONAL)
    claim = unlucky.claim(ledger, event())
    forgetful.answers_to_lose = 1
    with pytest.raises(DatabaseUnavailable), unlucky.apply(claim):
        pass
    assert unlucky.claim(ledger, event()).outcome is ClaimOutcome.DUPLICATE_DONE


@pytest.mark.clause("K4")
def test_a_claim_made_in_a_callers_transaction_is_never_taken_for_lost(
    registry: SqlRegistry, database: Database
) -> None:
    with database.transaction() as transaction:
        [claim] = registry.claim_all(BILLING, [event()], transaction=transaction)
    assert claim.granted
    assert registry.claim(BILLING, event()).outcome is ClaimOutcome.IN_PROGRESS
    registry.mark_done(claim)

"""Many at once behave as each for itself."""

from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import text

from driftq.registry import Claim, ClaimOutcome, ClaimState, EventKey, Wait
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database, Dialect, Queries, Statement, Transaction, as_rows
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


@pytest.mark.clause("K11", "K4")
def test_what_is_written_beside_marks_is_kept_with_them_and_only_for_claims_that_are_held(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock
) -> None:
    claims = registry.claim_all(SEARCH, [event(of="a"), event(of="b"), event(of="c")])
    clock.advance(ms=LEASE_MS)
    other.claim(SEARCH, event(of="b"))
    calls: list[list[str]] = []

    def beside(transaction: Transaction, held: Sequence[Claim]) -> None:
        calls.append([claim.event.aggregate_id for claim in held])
        if len(calls) == 1:
            raise RuntimeError("not now")

    with pytest.raises(RuntimeError):
        registry.mark_done_all(claims, beside=beside)
    assert [reached(registry, SEARCH, of=name) for name in "abc"] == [0, 0, 0]
    assert registry.mark_done_all(claims, beside=beside) == [claims[1]]
    assert calls[-1] == ["a", "c"]
    assert [reached(registry, SEARCH, of=name) for name in "abc"] == [1, 0, 1]


@pytest.mark.clause("K5")
def test_many_are_given_back_uncharged_and_lost_ones_are_told(
    registry: SqlRegistry, other: SqlRegistry, clock: VirtualClock
) -> None:
    claims = registry.claim_all(BILLING, [event(of="a"), event(of="b"), event(of="c")])
    registry.mark_failed(claims[0], error="no")
    clock.advance(ms=LEASE_MS)
    claims[0] = registry.claim(BILLING, event(of="a"))
    other.claim(BILLING, event(of="b"))
    assert registry.release_all(claims) == [claims[1]]
    assert registry.release_all(claims) == [claims[1]], "saying it again changes nothing"
    stored = [registry.find(BILLING.name, event(of=name).event_id) for name in "abc"]
    assert [(one.state, one.attempts) for one in stored] == [
        (ClaimState.READY, 1),
        (ClaimState.CLAIMED, 2),
        (ClaimState.READY, 0),
    ]
    assert (stored[0].last_error, registry.release_all([])) == ("no", [])
    assert registry.claim(BILLING, event(of="c")).attempt == 1


@pytest.mark.clause("K1")
def test_several_events_of_an_aggregate_are_marked_together(registry: SqlRegistry) -> None:
    claims = registry.claim_all(SEARCH, [event(number) for number in (1, 2, 3)])
    assert registry.mark_done_all(list(reversed(claims))) == []
    assert reached(registry, SEARCH) == 3


@pytest.mark.clause("K1")
def test_marks_go_to_their_claims_by_key(registry: SqlRegistry, database: Database) -> None:
    """PostgreSQL takes a state with few claims for an empty one, and would read all claims in flight."""
    if database.dialect is not Dialect.POSTGRES:
        return
    queries = Queries.load("driftq.registry", database.renderer)
    claims = registry.claim_all(SEARCH, [event(of=f"o{nth}") for nth in range(300)])
    given = {"g": as_rows([{"id": claims[0].event.event_id, "held": claims[0].token}]), "a": "[]"}
    for name in ("finish", "finish_and_advance", "heartbeat", "release"):
        plan = _plan(database, queries[name], handler=SEARCH.name, lease_ms=1, **given)
        assert "claims_open" not in plan, f"{name}: {plan}"
        assert "claims_pkey" in plan, f"{name}: {plan}"


def _plan(database: Database, statement: Statement, **given: Any) -> str:
    used = {name: value for name, value in given.items() if f":{name}" in statement.text.text}
    clock = {"now_ms": 0} if statement.timed else {}
    with database.transaction(planned_once=True) as transaction:
        explained = text(f"EXPLAIN {statement.text.text}")
        return "\n".join(row[0] for row in transaction.connection.execute(explained, used | clock))

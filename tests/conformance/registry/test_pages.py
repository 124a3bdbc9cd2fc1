"""Claims are shown page by page: what waits for an operator first, finished ones with the newest first."""

import pytest

from driftq.registry import ClaimState
from driftq.registry.admin import ClaimPage, ClaimPlace
from driftq.registry.sql_registry import SqlRegistry
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.cast import BILLING, LEASE_MS, MAIL, SEARCH, event, finish


def all_pages(
    registry: SqlRegistry, *states: ClaimState, limit: int, handler: str | None = None
) -> list[str]:
    """Handler, state and aggregate of every claim, gathered page by page."""
    found: list[str] = []
    after: ClaimPlace | None = None
    while True:
        page: ClaimPage = (
            registry.page(states, handler=handler, limit=limit, after=after)
            if states
            else registry.page(handler=handler, limit=limit, after=after)
        )
        assert len(page.claims) <= limit
        found += [f"{claim.handler} {claim.state} {claim.aggregate_id}" for claim in page.claims]
        after = page.more_after
        if after is None:
            return found


@pytest.fixture
def claims(registry: SqlRegistry, clock: VirtualClock) -> SqlRegistry:
    registry.claim(MAIL, event(of="m-1"))
    clock.advance(ms=LEASE_MS)
    registry.report_unknown()
    for name in ("a", "b", "c"):
        registry.mark_failed(registry.claim(BILLING, event(of=name)), error="no", retryable=False)
    registry.mark_failed(registry.claim(SEARCH, event(of="d")), error="later")
    registry.claim(SEARCH, event(of="e"))
    for number in range(5):
        clock.advance(ms=10)
        finish(registry, BILLING if number % 2 else SEARCH, 1, of=f"done-{number}")
    return registry


OPEN = [
    "mail unknown m-1",
    "billing dead a",
    "billing dead b",
    "billing dead c",
    "search failed d",
    "search claimed e",
]


@pytest.mark.clause("K6", "X6")
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_open_claims_come_state_by_state_and_each_once(claims: SqlRegistry, limit: int) -> None:
    assert all_pages(claims, limit=limit) == OPEN
    assert all_pages(claims, limit=limit, handler="search") == OPEN[4:]
    assert all_pages(claims, ClaimState.DEAD, limit=limit) == OPEN[1:4]
    assert all_pages(claims, ClaimState.DEAD, limit=limit, handler="billing") == OPEN[1:4]
    assert all_pages(claims, ClaimState.READY, limit=limit) == []


@pytest.mark.clause("X6")
@pytest.mark.parametrize("limit", [1, 2, 100])
def test_finished_claims_come_newest_first(claims: SqlRegistry, limit: int) -> None:
    newest = ["search done done-4", "billing done done-3", "search done done-2", "billing done done-1"]
    assert all_pages(claims, ClaimState.DONE, limit=limit) == [*newest, "search done done-0"]
    assert all_pages(claims, ClaimState.DONE, limit=limit, handler="billing") == [newest[1], newest[3]]
    assert all_pages(claims, ClaimState.STALE, limit=limit) == []


def test_the_open_list_is_read_from_its_index(claims: SqlRegistry) -> None:
    """SQLite says which index it uses; a scan of all claims would name none."""
    if claims.database.dialect != "sqlite":
        return
    from driftq.sql import Queries

    queries = Queries.load("driftq.registry", claims.database.renderer)
    asked = {"state": "dead", "handler": "billing", "after_handler": "", "after_event": "", "most": 5}
    with claims.database.snapshot() as transaction:
        for name in ("list_open", "list_open_of_handler"):
            text = str(queries[name].text)
            given = {key: value for key, value in asked.items() if f":{key}" in text}
            from sqlalchemy import text as sql

            plan = transaction.connection.execute(sql(f"EXPLAIN QUERY PLAN {text}"), given).all()
            assert "claims_open" in str(plan), (name, plan)

"""How far handlers have come on their topics."""

import pytest

from driftq.registry.parking import AppliedPartition, AppliedPositions
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import Database

FIRST = AppliedPartition("driftq/1", "orders", 0)
SECOND = AppliedPartition("driftq/1", "orders", 1)
RECREATED = AppliedPartition("driftq/2", "orders", 0)


@pytest.fixture
def applied(database: Database, registry: SqlRegistry) -> AppliedPositions:
    return AppliedPositions(database)


@pytest.mark.clause("K2", "V10")
def test_positions_belong_to_handler_and_identity_and_never_move_back(applied: AppliedPositions) -> None:
    assert applied.positions("billing") == {}
    applied.advance("billing", {FIRST: 10, SECOND: 4})
    applied.advance("billing", {FIRST: 7, SECOND: 5, RECREATED: 1})
    applied.advance("search", {FIRST: 2})
    applied.advance("search", {})
    assert applied.positions("billing") == {FIRST: 10, SECOND: 5, RECREATED: 1}
    assert applied.positions("search") == {FIRST: 2}

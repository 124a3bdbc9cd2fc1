"""A worker's run over one partition, on both engines, with a clock that moves only when the run waits."""

import pytest

from driftq.registry.sql_registry import SqlRegistry
from driftq.testing.clock import VirtualClock
from tests.conformance.registry.conftest import (
    clock,
    database,
    open_again,
    other,
    postgres_database_url,
    postgres_url,
    registry,
)
from tests.conformance.worker.stage import Stage

__all__ = ["clock", "database", "open_again", "other", "postgres_database_url", "postgres_url", "registry"]


@pytest.fixture
def stage(registry: SqlRegistry, clock: VirtualClock) -> Stage:
    return Stage(registry, clock)


@pytest.fixture
def another(other: SqlRegistry, clock: VirtualClock) -> Stage:
    """A second worker on the same database."""
    return Stage(other, clock)

"""A worker keeps the registry of processed jobs clean that it was given."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import driftq
from driftq.model.options.events import EventOptions
from driftq.registry.processed_jobs import ProcessedJobs
from driftq.server.jobs.processed import ProcessedSweeper
from driftq.sql import Database, open_database
from driftq.testing.clock import VirtualClock
from driftq.testing.embedded import VirtualBroker
from tests.unit.worker.conftest import PATIENCE_S


class Watched:
    """A registry that says when it was swept."""

    def __init__(self, processed: ProcessedJobs) -> None:
        self._processed = processed
        self.swept = threading.Event()

    def forget_expired(self, *, limit: int = 1_000) -> int:
        count = self._processed.forget_expired(limit=limit)
        self.swept.set()
        return count


@pytest.mark.clause("J12", "J12d", "J23")
def test_a_worker_sweeps_the_registry_that_it_was_given(broker: VirtualBroker, tmp_path: Path) -> None:
    clock = VirtualClock()
    database = open_database(f"sqlite:///{tmp_path}/own.db", clock=clock)
    processed = ProcessedJobs(database, ttl_ms=1_000)
    processed.record("old")
    clock.advance(ms=1_000)
    processed.record("new")
    watched = Watched(processed)
    jobs = driftq.Jobs(broker, processed=watched)

    @jobs.task(queue="q")
    def nothing() -> None: ...

    with jobs:
        assert watched.swept.wait(PATIENCE_S)
    assert _keys(database) == ["new"]
    database.close()


def _keys(database: Database) -> list[str]:
    with database.snapshot() as looking:
        rows = looking.connection.exec_driver_sql("SELECT job_key FROM processed_jobs ORDER BY job_key")
        return [str(key) for (key,) in rows]


@pytest.mark.clause("J12", "J12d", "J23")
def test_the_server_sweeps_its_own_folder_and_leaves_other_databases_alone(tmp_path: Path) -> None:
    options = EventOptions(folder=str(tmp_path))
    sweeper = ProcessedSweeper(options)
    assert sweeper.sweep() == 0
    assert list(tmp_path.iterdir()) == [], "it creates no file"
    events = open_database(f"sqlite:///{tmp_path}/events.db")
    ProcessedJobs(events, ttl_ms=1).record("over")
    (tmp_path / "pipeline").mkdir()
    other = open_database(f"sqlite:///{tmp_path}/pipeline/registry.db")
    with other.transaction() as writing:
        writing.connection.exec_driver_sql("CREATE TABLE toys (name TEXT)")
    other.close()
    while sweeper.sweep() == 0:  # The row is over within a millisecond of the database's own clock.
        threading.Event().wait(0.005)
    assert _keys(events) == []
    events.close()
    other = open_database(f"sqlite:///{tmp_path}/pipeline/registry.db")
    with other.snapshot() as looking:
        tables = looking.connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'")
        assert [name for (name,) in tables] == ["toys"]
    other.close()

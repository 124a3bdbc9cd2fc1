"""PostgreSQL stopped and started again under a running worker."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from driftq.pipeline.worker.spec import WorkerSpec
from driftq.registry import ClaimState, Effect, Resolution
from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sql import open_database, upgrade
from tests.harness import ServerProcess
from tests.services_postgres import PostgresServer, private_postgres
from tests.spark import worker_app
from tests.spark.order_events import publish
from tests.spark.test_worker import create, options_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["private_postgres"]

DEADLINE_S = 180


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@pytest.mark.timeout(600)
@pytest.mark.clause("X8", "K7", "K6")
def test_an_outage_costs_nothing_but_time(
    spark: SparkSession, server: ServerProcess, tmp_path: Path, private_postgres: PostgresServer
) -> None:
    create(server, "outage")
    database = open_database(private_postgres.url)
    upgrade(database, [MIGRATIONS])
    options = options_for(
        server, tmp_path, DRIFTQ_DATABASE_URL=private_postgres.url, INSTANCE_WORKER_MAX_RETRY_ATTEMPTS="0"
    )
    call = partial(worker_app.note, str(tmp_path))
    job = WorkerSpec(name="patient", call=call, topics=("outage",), effect=Effect.UNKNOWN).job(options)
    query = job.start(spark, once=False)
    try:
        publish(server, "outage", [("o", 1), ("p", 1)])
        until(lambda: len(worker_app.runs(tmp_path)) == 2, "the first events were not handled")
        until(lambda: committed(options.checkpoint(job.name), batches=1), "the first batch did not end")
        private_postgres.stop()
        publish(server, "outage", [("o", 2), ("p", 2)])
        until(lambda: planned(options.checkpoint(job.name), batches=2), "the second batch did not begin")
        assert len(worker_app.runs(tmp_path)) == 2, "no effect without a claim"
        private_postgres.start()
        until(lambda: committed(options.checkpoint(job.name), batches=2), "it did not go on")
        assert query.isActive
        registry = SqlRegistry(database)
        done = registry.list_claims(ClaimState.DONE)
        assert [(claim.event_id, claim.attempts) for claim in done] == [
            ("o-1", 1),
            ("o-2", 1),
            ("p-1", 1),
            ("p-2", 1),
        ]
        assert registry.counts("patient") == {}
        asks_and_gets_an_answer(server, registry, tmp_path)
    finally:
        query.stop()
        database.close()


def asks_and_gets_an_answer(server: ServerProcess, registry: SqlRegistry, folder: Path) -> None:
    """A running worker takes up what somebody resolves, without a message of its own."""
    (folder / "unsure").touch()
    publish(server, "outage", [("o", 3), ("o", 4)])
    until(lambda: registry.counts("patient") == {ClaimState.UNKNOWN: 1}, "it was not asked about")
    (folder / "unsure").unlink()
    registry.resolve("patient", "o-3", Resolution.DONE, by="the test")
    until(lambda: ("o", 4) in [one[:2] for one in worker_app.runs(folder)], "the next one did not go on")


def committed(checkpoint: str, *, batches: int) -> bool:
    return any(Path(checkpoint).glob(f"**/commits/{batches - 1}"))


def planned(checkpoint: str, *, batches: int) -> bool:
    return any(Path(checkpoint).glob(f"**/offsets/{batches - 1}"))

"""Many events with duplicates and in no order: the registry of a worker is what ordered delivery leaves."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import text

from driftq.pipeline.worker.job import WorkerJob
from driftq.registry import EventKey, Handler
from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sql import Database, open_database, upgrade
from tests.harness import ServerProcess
from tests.spark import worker_app
from tests.spark.order_events import publish
from tests.spark.test_worker import create, options_for, run_once, worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = int(os.environ.get("WORKER_EVENTS", "6000"))
"""100,000 take four minutes."""
EACH = 10
SENT_AT_ONCE = 2_000


def kept(database: Database) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """All claims and positions, but for tokens, times and who it was."""
    claims = (
        "SELECT handler, event_id, aggregate_type, aggregate_id, sequence_number, state, attempts"
        " FROM {claims}"
    )
    positions = "SELECT handler, aggregate_type, aggregate_id, last_sequence FROM {positions}"
    with database.snapshot() as snapshot:
        first, second = (
            sorted(tuple(row) for row in snapshot.connection.execute(text(database.renderer.render(query))))
            for query in (claims, positions)
        )
    return first, second


def delivered_in_order(database: Database, handler: Handler, events: list[tuple[str, int]]) -> None:
    upgrade(database, [MIGRATIONS])
    registry = SqlRegistry(database)
    by_sequence = sorted(events, key=lambda event: (event[1], event[0]))
    for at in range(0, len(by_sequence), EVENTS // EACH):
        keys = [
            EventKey(f"{name}-{number}", "order", name, number)
            for name, number in by_sequence[at : at + EVENTS // EACH]
        ]
        assert registry.mark_done_all(registry.claim_all(handler, keys)) == []


@pytest.mark.clause("X4", "X1", "K2")
@pytest.mark.timeout(900)
def test_the_registry_is_what_ordered_single_delivery_leaves(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    create(server, "crowd")
    events = [(f"o{nth // EACH}", 1 + nth % EACH) for nth in range(EVENTS)]
    random = Random(7)
    arriving = [*events, *random.sample(events, EVENTS // EACH)]
    random.shuffle(arriving)
    for at in range(0, len(arriving), SENT_AT_ONCE):
        publish(server, "crowd", arriving[at : at + SENT_AT_ONCE])
    job = WorkerJob(worker("crowd", worker_app.nothing), options_for(server, tmp_path))
    assert run_once(spark, job, within_s=800)["done"] == EVENTS

    found = open_database(f"sqlite:///{tmp_path}/pipeline/registry.db")
    wanted = open_database(f"sqlite:///{tmp_path}/ordered.db")
    delivered_in_order(wanted, job.spec.handler(job.options.registry), events)
    assert kept(found) == kept(wanted)
    assert len(kept(found)[0]) == EVENTS
    found.close()
    wanted.close()

"""Parts of the worker on Spark that need neither Spark nor a database server."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from driftq.errors import InvalidArgument
from driftq.pipeline.worker.context import WorkerContext
from driftq.pipeline.worker.derived import derived_id
from driftq.pipeline.worker.heartbeats import ClaimHeartbeats, HeldLease
from driftq.pipeline.worker.spec import Family, WorkerSpec
from driftq.pipeline.worker.store import WorkerStore
from driftq.pipeline.worker.timing import SystemTiming
from driftq.registry import Effect, EventKey, GapPolicy, Handler
from driftq.registry.sql_registry import SqlRegistry
from driftq.settings import load_settings
from driftq.sql.sqlite import SqliteDatabase

DEADLINE_S = 30


@pytest.mark.clause("Z5")
def test_whoever_beats_has_no_spark_to_act_with() -> None:
    """Nothing around the heartbeats loads Spark, let alone runs it."""
    seen = "import sys, driftq.pipeline.worker.runtime; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", seen], check=False).returncode == 0


@pytest.mark.clause("K1", "Z5")
def test_a_handler_that_never_pauses_keeps_its_lease(tmp_path: Path) -> None:
    registry = SqlRegistry(SqliteDatabase(str(tmp_path / "registry.db")))
    handler = Handler("busy", Effect.IDEMPOTENT, lease_ms=60_000)
    heartbeats = ClaimHeartbeats(
        lambda: WorkerStore.on(SqlRegistry(SqliteDatabase(str(tmp_path / "registry.db")))).claims,
        every_ms=20,
        timing=SystemTiming(),
    )
    with heartbeats:
        [claim] = registry.claim_all(handler, [EventKey("e", "order", "o", 1)])
        heartbeats.hold([claim], claimed_at=SystemTiming().now())
        end = time.monotonic() + DEADLINE_S
        extended = claim.lease_until
        for _ in range(2):
            before = extended
            while extended <= before and time.monotonic() < end:
                sum(range(100_000))
                extended = registry.find("busy", "e").lease_until
        assert extended > claim.lease_until
        context = WorkerContext(claim, topic="t", partition=0, offset=0, heartbeat=registry.heartbeat)
        assert heartbeats.begin(claim, context) is HeldLease.CURRENT
        registry.release(claim)
        while not context.lost:
            assert time.monotonic() < end, "nobody was told"


@pytest.mark.clause("K5", "N1", "K5b")
def test_each_family_has_its_own_number_of_retries() -> None:
    settings = load_settings(
        environ={"INSTANCE_WORKER_MAX_RETRY_ATTEMPTS": "2", "ONTOLOGY_WORKER_MAX_RETRY_ATTEMPTS": "7"}
    ).registry

    def retries(family: Family) -> int:
        spec = WorkerSpec(
            name="w", call=lambda event, context: None, topics=("t",), effect=Effect.UNKNOWN, family=family
        )
        handler = spec.handler(settings)
        assert (handler.gap_policy, handler.lease_ms) == (GapPolicy.ORDERED, 900_000)
        return handler.max_retries

    assert (retries(Family.INSTANCE), retries(Family.ONTOLOGY)) == (2, 7)


@pytest.mark.parametrize(
    "wrong",
    [{"name": ""}, {"topics": ()}, {"topic_pattern": "e.*"}, {"effect": "sure"}, {"family": "none"}],
    ids=str,
)
def test_a_worker_that_cannot_be_meant_is_refused(wrong: dict) -> None:
    fields = {"name": "w", "call": print, "topics": ("t",), "effect": Effect.IDEMPOTENT} | wrong
    with pytest.raises(InvalidArgument):
        WorkerSpec(**fields)


@pytest.mark.clause("K8")
def test_derived_ids_depend_on_handler_source_and_place() -> None:
    ids = [derived_id(*one) for one in (("h", "e", 0), ("h", "e", 1), ("h", "f", 0), ("g", "e", 0))]
    assert len(set(ids)) == 4
    assert derived_id("h", "e", 0) == ids[0] == "1c0aea54-9729-59ac-877f-1ca4560de14c"

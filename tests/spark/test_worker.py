"""The worker as a streaming query: order, duplicates, lost checkpoints, derived events, refused starts."""

from __future__ import annotations

import shutil
from collections import defaultdict
from functools import partial
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import StreamingQueryException
from sqlalchemy import text

from driftq.errors import DatabaseUnavailable, InvalidArgument
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.worker.derived import derived_id
from driftq.pipeline.worker.job import WorkerJob
from driftq.pipeline.worker.spec import HandlerCall, WorkerSpec
from driftq.registry import ClaimState, Effect
from driftq.registry.sql_registry import SqlRegistry
from driftq.settings import load_settings
from driftq.sql import open_database
from tests.harness import ServerProcess
from tests.spark import worker_app
from tests.spark.order_events import publish

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DONE_S = 240
STARTS_MAX = 5
pytestmark = pytest.mark.timeout(600)


def options_for(server: ServerProcess, folder: Path, **env: str) -> PipelineOptions:
    settings = load_settings(environ={"PROCESSED_EVENT_LEASE_TIMEOUT_SECONDS": "60", **env})
    return settings.pipeline(url=f"http://127.0.0.1:{server.port}", data=str(folder))


def create(server: ServerProcess, topic: str) -> None:
    assert server.client().post("/v1/topics", {"name": topic, "partitions": 3}).status == 201


def worker(
    topic: str, call: HandlerCall, *, name: str = "noting", effect: Effect = Effect.IDEMPOTENT
) -> WorkerSpec:
    return WorkerSpec(name=name, call=call, topics=(topic,), effect=effect)


def forget_positions(options: PipelineOptions) -> None:
    """As a registry that was set up again, or that an earlier version has written."""
    database = open_database(f"sqlite:///{options.registry_file}")
    with database.transaction() as transaction:
        statement = database.renderer.render("DELETE FROM {applied_positions}")
        transaction.connection.execute(text(statement))
    database.close()


def run_once(spark: SparkSession, job: WorkerJob, *, within_s: int = DONE_S) -> dict[str, int]:
    """A run with `--once`; how many events came to which end."""
    for _ in range(STARTS_MAX):
        query = job.start(spark, once=True)
        try:
            assert query.awaitTermination(within_s), "it did not end"
        except StreamingQueryException as failure:
            # Spark gives a Python worker ten seconds to start, which a busy machine may miss.
            if "failed to connect back" not in str(failure):
                raise
        else:
            return dict(job.counts)
        finally:
            query.stop()
    raise AssertionError(f"it could not be started {STARTS_MAX} times")


@pytest.mark.clause("Z1", "Z6", "K2", "X1", "X4", "U6")
def test_duplicates_disorder_and_a_lost_checkpoint_leave_one_effect_each(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    create(server, "twice")
    events = [(f"o{nth % 15}", 1 + nth // 15) for nth in range(150)]
    shuffled = [*events, *events]
    Random(7).shuffle(shuffled)
    publish(server, "twice", shuffled)
    options = options_for(server, tmp_path)
    spec = worker("twice", partial(worker_app.note, str(tmp_path)))
    assert run_once(spark, WorkerJob(spec, options)) == {"done": 150, "duplicate": 150}
    shutil.rmtree(options.checkpoint("worker-noting"))
    publish(server, "twice", [("o0", 11)])
    assert run_once(spark, WorkerJob(spec, options)) == {"done": 1}, "the registry knows how far it was"
    forget_positions(options)
    assert run_once(spark, WorkerJob(spec, options)) == {"duplicate": 301}
    by_aggregate = defaultdict(list)
    for name, sequence, _ in worker_app.runs(tmp_path):
        by_aggregate[name].append(sequence)
    assert by_aggregate == {f"o{n}": list(range(1, 12 if n == 0 else 11)) for n in range(15)}
    assert {partition for *_, partition in worker_app.runs(tmp_path)} == {0, 1, 2}


@pytest.mark.clause("K8", "Z6")
def test_derived_events_are_appended_once_with_ids_that_repeat(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    create(server, "deriving")
    publish(server, "deriving", [("d2", 2), ("d1", 1)])
    spec = worker("deriving", partial(worker_app.derive, str(tmp_path)), name="deriving")
    options = options_for(server, tmp_path)
    assert run_once(spark, WorkerJob(spec, options)) == {"done": 1, "parked": 1}
    publish(server, "deriving", [("d1", 1), ("d2", 1)])
    assert run_once(spark, WorkerJob(spec, options)) == {"done": 2, "duplicate": 1}
    for name, sources in (("d1", ["d1-1"]), ("d2", ["d2-1", "d2-2"])):
        answer = server.client().get("/v1/events", aggregate_type="derived", aggregate_id=name)
        ids = [event["event_id"] for event in answer.body["events"]]
        assert ids == [derived_id("deriving", source, n) for source in sources for n in range(2)]


@pytest.mark.clause("K9")
def test_without_the_registry_an_idempotent_handler_runs_under_the_guard(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    create(server, "guarded")
    publish(server, "guarded", [("g", 1), ("g", 2), ("g", 2), ("g", 1)])
    nowhere = "postgresql://nobody@127.0.0.1:1/nothing"
    options = options_for(
        server, tmp_path, ENABLE_PROCESSED_EVENT_REGISTRY="false", DRIFTQ_DATABASE_URL=nowhere
    )
    spec = worker("guarded", partial(worker_app.note, str(tmp_path)))
    assert run_once(spark, WorkerJob(spec, options)) == {"done": 2, "stale": 2}
    assert [sequence for _, sequence, _ in worker_app.runs(tmp_path)] == [1, 2]
    registry = SqlRegistry(open_database(f"sqlite:///{options.registry_file}"))
    assert registry.list_claims(ClaimState.DONE) == []


@pytest.mark.clause("K9", "K7")
@pytest.mark.parametrize("effect", [Effect.TRANSACTIONAL, Effect.UNKNOWN])
def test_without_the_registry_other_handlers_refuse_the_start(
    spark: SparkSession, server: ServerProcess, tmp_path: Path, effect: Effect
) -> None:
    options = options_for(server, tmp_path, ENABLE_PROCESSED_EVENT_REGISTRY="false")
    job = WorkerJob(worker("guarded", partial(worker_app.note, str(tmp_path)), effect=effect), options)
    with pytest.raises(InvalidArgument, match="ENABLE_PROCESSED_EVENT_REGISTRY=false"):
        job.start(spark, once=True)


@pytest.mark.clause("K9", "K7", "X8")
def test_a_registry_that_is_away_refuses_the_start(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    options = options_for(server, tmp_path, DRIFTQ_DATABASE_URL="postgresql://nobody@127.0.0.1:1/nothing")
    job = WorkerJob(worker("guarded", partial(worker_app.note, str(tmp_path))), options)
    with pytest.raises(DatabaseUnavailable):
        job.start(spark, once=True)

"""Where a worker begins, how its batches are divided, and what it knows of the topics it reads."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import driftq
from driftq.pipeline.worker.job import WorkerJob
from driftq.registry import ClaimState
from driftq.registry.sql_registry import SqlRegistry
from driftq.sinks import TopicPartition
from driftq.sql import open_database
from tests.harness import ServerProcess
from tests.spark import worker_app
from tests.spark.order_events import publish, value
from tests.spark.test_worker import create, forget_positions, options_for, run_once, worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from driftq.model.options.pipeline import PipelineOptions

pytestmark = pytest.mark.timeout(600)


def produce(server: ServerProcess, topic: str, messages: list[tuple[str, str]]) -> None:
    """Keys and values, in this order."""
    body = {"messages": [{"topic": topic, "key": key, "value": text} for key, text in messages]}
    assert server.client().post("/v1/produce/batch", body).body["failed"] == 0


def commits(options: PipelineOptions, job: WorkerJob) -> int:
    """How many batches the runs of a job have committed."""
    return len(list(Path(options.checkpoint(job.name)).glob("*/commits/[0-9]*")))


@pytest.mark.clause("K8", "Z1", "N1")
def test_an_aggregate_is_one_tasks_whatever_partitions_it_is_in(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    """Every event has its own key, and they come in the wrong order: within a batch nothing is parked."""
    create(server, "strewn")
    events = [(f"s{nth % 4}", 20 - nth // 4) for nth in range(80)]
    produce(server, "strewn", [(f"{name}/{number}", value(name, number)) for name, number in events])
    produce(server, "strewn", [("?", "no event"), ("??", "nor this")])
    options = options_for(server, tmp_path)
    job = WorkerJob(worker("strewn", partial(worker_app.note, str(tmp_path))), options)
    assert run_once(spark, job) == {"done": 80, "dead": 2}
    ran = worker_app.runs(tmp_path)
    assert {partition for *_, partition in ran} == {0, 1, 2}
    for name in ("s0", "s1", "s2", "s3"):
        assert [number for of, number, _ in ran if of == name] == list(range(1, 21))


@pytest.mark.clause("N1", "K2")
def test_the_size_of_a_batch_is_a_setting(spark: SparkSession, server: ServerProcess, tmp_path: Path) -> None:
    create(server, "pieces")
    publish(server, "pieces", [(f"p{nth}", 1) for nth in range(30)])
    options = options_for(server, tmp_path, DRIFTQ_WORKER_BATCH_EVENTS="10")
    job = WorkerJob(worker("pieces", partial(worker_app.note, str(tmp_path))), options)
    assert run_once(spark, job) == {"done": 30}
    assert commits(options, job) >= 3
    assert sum(offset + 1 for offset in job.positions().values()) >= 30


@pytest.mark.clause("V10", "K2", "X1")
def test_positions_belong_to_the_topic_that_was_read(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    """Another topic of the same name is read from its start; its bad message is another dead letter."""
    options = options_for(server, tmp_path)
    job = WorkerJob(worker("again", partial(worker_app.note, str(tmp_path))), options)
    create(server, "again")
    produce(server, "again", [("a", value("a", 1)), ("?", "no event")])
    assert run_once(spark, job) == {"done": 1, "dead": 1}
    [first] = {place.identity for place in job.positions()}
    with driftq.Client(f"http://127.0.0.1:{server.port}") as client:
        client.delete_topic("again")
    create(server, "again")
    produce(server, "again", [("a", value("a", 1)), ("a", value("a", 2)), ("?", "no event")])
    later = WorkerJob(job.spec, options)
    assert run_once(spark, later) == {"done": 1, "duplicate": 1, "dead": 1}
    assert {place.identity for place in later.positions()} > {first}
    registry = SqlRegistry(open_database(f"sqlite:///{options.registry_file}"))
    dead = registry.list_claims(ClaimState.DEAD)
    assert len({claim.event_id for claim in dead}) == 2
    assert all(claim.event_id.startswith("unfit:driftq/") for claim in dead)
    registry.database.close()


@pytest.mark.clause("K2")
def test_a_checkpoint_of_a_version_without_positions_is_continued(
    spark: SparkSession, server: ServerProcess, tmp_path: Path
) -> None:
    create(server, "older")
    publish(server, "older", [("o", 1), ("p", 1)])
    options = options_for(server, tmp_path)
    job = WorkerJob(worker("older", partial(worker_app.note, str(tmp_path))), options)
    assert run_once(spark, job) == {"done": 2}
    folder = Path(options.checkpoint(job.name))
    [own] = folder.glob("*/")
    for part in own.iterdir():
        shutil.move(part, folder / part.name)
    own.rmdir()
    forget_positions(options)
    publish(server, "older", [("o", 2)])
    continued = WorkerJob(job.spec, options)
    assert run_once(spark, continued) == {"done": 1}, "nothing was read again"
    assert any(isinstance(place, TopicPartition) for place in continued.positions())
    publish(server, "older", [("o", 3)])
    counts = run_once(spark, WorkerJob(job.spec, options))
    assert counts["done"] == 1
    assert set(counts) <= {"done", "duplicate"}, "a partition without news has no position yet: read again"
    assert len([path for path in folder.glob("*/") if (path / "commits").exists()]) == 1

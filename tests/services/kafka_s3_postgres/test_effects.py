"""Effects once, claims, retries, odd ids and an outage, over Kafka, S3 and PostgreSQL.

Each effect is a document in OpenSearch and in Redis, and a line in a file that tells how often it ran.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from driftq.eventstore.published import topic_of
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline import Projection, WorkerSpec
from driftq.pipeline.worker.job import WorkerJob
from driftq.publishing.kafka.positions import POSITIONS_TOPIC
from driftq.registry import ClaimState, Effect
from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sinks import PostgresSink, open_sink
from driftq.sql import open_database, upgrade
from tests.services.kafka_s3_postgres import handlers
from tests.services.kafka_s3_postgres.stack import Stack, new_kind
from tests.services_kafka import KafkaServer
from tests.services_postgres import PostgresServer
from tests.spark.test_worker import run_once
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.clause("X9", "X9a", "X9b", "Z4"), pytest.mark.timeout(2400)]

ODD_IDS = ("A", "a", " a", "a ", "ä", "a\N{COMBINING DIAERESIS}", "a/b", "a_2Fb", "a%2Fb", "a\tb", "%", "Ａ")
"""Equal for an eye, a database or a file system, and different as ids."""


def worker(
    kind: str, folder: Path, options: PipelineOptions, documents: list[str], *, name: str
) -> WorkerJob:
    sinks = sinks_of(kind, documents)
    call = partial(handlers.note, str(folder), list(sinks))
    spec = WorkerSpec(name=name, call=call, topics=(topic_of(kind),), effect=Effect.IDEMPOTENT, sinks=sinks)
    return WorkerJob(spec, options)


def sinks_of(kind: str, documents: list[str]) -> dict[str, str]:
    """By the names of their read models."""
    name = kind.replace("-", "_")
    return {f"{name}_effects_{number}": address for number, address in enumerate(documents)}


def assert_documents(kind: str, documents: list[str], wanted: dict[str, int]) -> None:
    """The effects of the last event of each aggregate, by its sequence, in each target."""
    for name, address in sinks_of(kind, documents).items():
        model = open_sink(address).connect(name)
        assert {row.aggregate_id: row.sequence_number for row in model.rows()} == wanted, address
        model.close()


@pytest.mark.clause("X1", "X7", "U6", "U7")
def test_events_that_a_killed_publisher_publishes_twice_have_their_effects_once(
    stack: Stack, private_kafka: KafkaServer, documents: list[str], spark: SparkSession, tmp_path: Path
) -> None:
    """It is killed in the middle, the broker restarts, and the positions on Kafka are lost."""
    kind = new_kind("odd")
    count = 50 * len(ODD_IDS)
    stack.append(kind, [ODD_IDS[number % len(ODD_IDS)] for number in range(count)])
    stack.wait_for(kind, 1)
    stack.kill_publisher()
    before = len(stack.arrived(kind))
    stack.wait_for_segments()
    private_kafka.restart()
    with KafkaCluster(stack.kafka) as cluster:
        cluster.delete_topic(POSITIONS_TOPIC)
    stack.start_publisher()
    stack.wait_for(kind, before + count)
    published = Counter(event.event_id for event in stack.arrived(kind))
    assert (len(published), published.total()) == (count, before + count)
    options = stack.options(tmp_path)
    counts = run_once(spark, worker(kind, tmp_path, options, documents, name=f"noting-{kind}"))
    assert counts == {"done": count} | ({"duplicate": before} if before else {})
    assert handlers.runs(tmp_path) == Counter(f"{kind}-{number}" for number in range(count))
    name = kind.replace("-", "_")
    sinks = [PostgresSink(stack.database_url), *map(open_sink, documents)]
    projection = Projection(name, topic=topic_of(kind), sinks=sinks)
    projection.run(spark, options=options, once=True)
    for sink in projection.sinks:
        model = sink.connect(name)
        rows = {row.aggregate_id: row.sequence_number for row in model.rows()}
        model.close()
        assert rows == dict.fromkeys(ODD_IDS, 50)
    assert_documents(kind, documents, dict.fromkeys(ODD_IDS, 50))


@pytest.mark.clause("X5", "K1")
def test_of_two_workers_that_get_the_same_events_one_claims_each(
    stack: Stack, documents: list[str], spark: SparkSession, tmp_path: Path
) -> None:
    kind = new_kind("shared")
    stack.append(kind, [f"a{number % 20}" for number in range(200)])
    stack.wait_for(kind, 200)
    name = f"noting-{kind}"
    jobs = [
        worker(kind, tmp_path, stack.options(tmp_path / folder), documents, name=name)
        for folder in ("one", "other")
    ]
    queries = [job.start(spark.newSession(), once=True) for job in jobs]  # A name has one query a session.
    for query in queries:
        assert query.awaitTermination(600)
        query.stop()
    for job in jobs:
        job.close()
    assert handlers.runs(tmp_path) == Counter(f"{kind}-{number}" for number in range(200))
    assert sum(job.counts["done"] for job in jobs) == 200
    assert_documents(kind, documents, {f"a{number}": 10 for number in range(20)})


@pytest.mark.clause("X6", "K5")
def test_a_failing_event_is_retried_given_up_and_requeued_by_hand(
    stack: Stack, documents: list[str], spark: SparkSession, tmp_path: Path
) -> None:
    kind = new_kind("failing")
    stack.append(kind, ["a"])
    stack.wait_for(kind, 1)
    (tmp_path / "broken").touch()
    options = stack.options(tmp_path, INSTANCE_WORKER_MAX_RETRY_ATTEMPTS="2")
    job = worker(kind, tmp_path, options, documents, name=f"noting-{kind}")
    assert run_once(spark, job) == {"failed": 2, "dead": 1}
    database = open_database(stack.database_url)
    registry = SqlRegistry(database)
    dead = registry.find(job.spec.name, f"{kind}-0")
    assert (dead.state, dead.attempts) == (ClaimState.DEAD, 3)
    assert dead.last_error == "RuntimeError: attempt 3 fails"
    (tmp_path / "broken").unlink()
    registry.requeue(job.spec.name, f"{kind}-0", by="ada")
    job.take_up_parked(everything=True)
    assert handlers.runs(tmp_path) == {f"{kind}-0": 1}
    assert_documents(kind, documents, {"a": 1})
    assert registry.find(job.spec.name, f"{kind}-0").state is ClaimState.DONE
    job.close()
    database.close()


@pytest.mark.clause("X8", "K7")
def test_an_outage_of_the_registry_costs_nothing_but_time(
    stack: Stack,
    documents: list[str],
    spark: SparkSession,
    private_postgres: PostgresServer,
    tmp_path: Path,
) -> None:
    kind = new_kind("outage")
    database = open_database(private_postgres.url)
    upgrade(database, [MIGRATIONS])
    options = stack.options(tmp_path, DRIFTQ_DATABASE_URL=private_postgres.url)
    job = worker(kind, tmp_path, options, documents, name="patient")
    stack.append(kind, ["a", "b"])
    stack.wait_for(kind, 2)
    query = job.start(spark, once=False)
    try:
        wait_until("the first are handled", lambda: len(handlers.runs(tmp_path)) == 2, within_s=600)
        private_postgres.stop()
        stack.append(kind, ["a", "b"], first=2)
        stack.wait_for(kind, 4)
        assert len(handlers.runs(tmp_path)) == 2, "no effect without a claim"
        private_postgres.start()
        wait_until("it goes on", lambda: len(handlers.runs(tmp_path)) == 4, within_s=600)
        wait_until(
            "all is marked",
            lambda: len(SqlRegistry(database).list_claims(ClaimState.DONE)) == 4,
            within_s=600,
        )
        assert query.isActive
        assert set(handlers.runs(tmp_path).values()) == {1}
        assert_documents(kind, documents, {"a": 2, "b": 2})
    finally:
        query.stop()
        job.close()
        database.close()

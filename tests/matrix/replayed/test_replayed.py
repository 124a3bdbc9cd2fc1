"""200,000 events through Kafka to a cluster that is killed: the same as ordered single delivery."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import pytest

from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from driftq.pipeline.projection.definition import default_sinks
from driftq.pipeline.worker.store import WorkerStore
from driftq.registry import Effect, Handler
from driftq.sql import open_database
from tests.matrix.cluster.kills import Kill, kill_daemon, kill_driver, kill_executor
from tests.matrix.cluster.stage import ClusterStage
from tests.matrix.replayed.crowd import DOUBLED, Crowd, Row, registry_rows, send
from tests.services_kafka import kafka
from tests.services_postgres import postgres_database_url, postgres_url
from tests.services_s3 import S3Server, s3_server
from tests.services_spark_cluster import SparkCluster, spark_cluster

__all__ = ["kafka", "postgres_database_url", "postgres_url", "s3_server", "spark_cluster"]

pytestmark = [pytest.mark.timeout(5_400)]
EACH = 20
CROWD = Crowd(aggregates=int(os.environ.get("REPLAYED_EVENTS", "200000")) // EACH, each=EACH)
TOPIC = "events.replayed"
PARTITIONS = 4
APP = """
import driftq
from driftq.pipeline import App, Projection, latest_state, ordered

app = App()


@app.worker(topics=["events.replayed"], effect=driftq.Effect.IDEMPOTENT, name="note")
def note(event, context):
    pass


def total(state, event):
    return (state or 0) + event.payload["n"]


app.projection(Projection("newest", topic="events.replayed", fold=latest_state, batch_messages_max=BATCH))
app.projection(Projection("totals", topic="events.replayed", fold=ordered(total), batch_messages_max=BATCH))
"""


@pytest.fixture
def stage(
    tmp_path: Path,
    spark_cluster: SparkCluster,
    postgres_database_url: str,
    s3_server: S3Server,
    kafka: KafkaOptions,
) -> Iterator[ClusterStage]:
    batch = max(1_000, CROWD.events // 8)
    made = ClusterStage(
        tmp_path,
        spark_cluster,
        app=APP.replace("BATCH", str(batch)),
        database_url=postgres_database_url,
        s3=s3_server,
        kafka=kafka,
        settings={"DRIFTQ_WORKER_BATCH_EVENTS": str(min(20_000, batch))},
    )
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.mark.clause("Z8", "X1", "X4")
def test_shuffled_doubled_replayed_and_killed_they_come_to_what_ordered_delivery_gives(
    stage: ClusterStage, kafka: KafkaOptions, tmp_path: Path
) -> None:
    with KafkaCluster(kafka) as cluster:
        cluster.create_topic(TOPIC, partitions=PARTITIONS)
    first = CROWD.shuffled(seed=7, doubled=DOUBLED)
    send(kafka, TOPIC, map(CROWD.event, first))
    stage.run(
        "worker",
        "projection",
        kills=[
            Kill(lambda: 0 < stage.rows_done("worker-note") < len(first), kill_executor),
            Kill(lambda: len(first) // 2 < stage.rows_done("worker-note") < len(first), kill_driver),
            Kill(lambda: 0 < stage.rows_done("projection-newest") < len(first), kill_daemon),
            Kill(lambda: 0 < stage.rows_done("projection-totals") < len(first), kill_executor),
        ],
    )
    check(stage, tmp_path)
    send(kafka, TOPIC, map(CROWD.event, CROWD.shuffled(seed=8, doubled=0)))
    every = len(first) + CROWD.events
    halfway = Kill(lambda: len(first) < stage.rows_done("projection-totals") < every, kill_executor)
    stage.run("worker", "projection", kills=[halfway])
    check(stage, tmp_path)


def check(stage: ClusterStage, folder: Path) -> None:
    """Read models and registries row by row."""
    for name, expected in (("newest", CROWD.newest()), ("totals", CROWD.totals())):
        model = default_sinks(stage.options)[0].connect(name)
        assert_same(map(tuple, model.rows()), expected)
        assert_same(map(tuple, model.registry()), CROWD.last_events())
        assert list(model.dead_letters()) == []
        model.close()
    wanted = open_database(f"sqlite:///{folder}/ordered.db")
    store = WorkerStore.open(stage.options)
    try:
        if not (folder / "delivered").exists():
            CROWD.deliver_in_order(wanted, Handler("note", Effect.IDEMPOTENT))
            (folder / "delivered").touch()
        assert_same(registry_rows(store.registry.database), registry_rows(wanted))
    finally:
        store.close()
        wanted.close()


def assert_same(found: Iterable[Row], expected: Iterable[Row]) -> None:
    """Row by row, so that a difference says where it is, and neither side is in memory as a whole."""
    for number, (one, other) in enumerate(zip_longest(found, expected)):
        assert one == other, f"row {number}"

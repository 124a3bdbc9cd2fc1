"""Parts of a cluster are killed in the middle of the work: nothing is lost, and nothing is done twice."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from driftq.pipeline.read_model import rows
from tests.matrix.cluster.kills import Kill, kill_daemon, kill_driver, kill_executor
from tests.matrix.cluster.stage import ClusterStage
from tests.services_kafka import kafka
from tests.services_postgres import own_database_url, postgres_url
from tests.services_s3 import S3Server, s3_server
from tests.services_spark_cluster import SparkCluster, spark_cluster
from tests.spark.publishing import KINDS, TOPICS, append_events

__all__ = ["kafka", "own_database_url", "postgres_url", "s3_server", "spark_cluster"]

pytestmark = [pytest.mark.timeout(3_600)]
EVENTS = 3_000
AGGREGATES = 7
APP = """
from sqlalchemy import text

import driftq
from driftq.pipeline import App, Projection, latest_state, ordered

app = App()


@app.worker(topic_pattern=r"events\\..*", effect=driftq.Effect.TRANSACTIONAL, name="bill")
def bill(event, context):
    context.transaction.connection.execute(
        text("INSERT INTO bills (event_id, aggregate_id, sequence_number) VALUES (:e, :a, :s)"),
        {"e": event.event_id, "a": event.aggregate_id, "s": event.sequence_number},
    )


def total(state, event):
    return (state or 0) + event.payload["n"]


app.projection(
    Projection("newest", topic_pattern=r"events\\..*", fold=latest_state, batch_messages_max=1_000)
)
app.projection(
    Projection("totals", topic_pattern=r"events\\..*", fold=ordered(total), batch_messages_max=1_000)
)
"""
BILLS = "CREATE TABLE bills (event_id text, aggregate_id text, sequence_number bigint)"
SETTINGS = {
    "DRIFTQ_WORKER_BATCH_EVENTS": "1000",
    "EVENT_PUBLISHER_BATCH_SIZE": "50",
    "EVENT_PUBLISHER_KAFKA_TRANSACTION_EVENTS": "100",
}
"""Small batches, so that there is a middle in which to kill."""
Rows = dict[tuple[str, str], tuple[int, object]]


@pytest.fixture(params=["driftq", "kafka"])
def stage(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    spark_cluster: SparkCluster,
    own_database_url: str,
    s3_server: S3Server,
) -> Iterator[ClusterStage]:
    made = ClusterStage(
        tmp_path,
        spark_cluster,
        app=APP,
        database_url=own_database_url,
        s3=s3_server,
        kafka=request.getfixturevalue("kafka") if request.param == "kafka" else None,
        settings=SETTINGS,
    )
    try:
        made.start(BILLS)
        yield made
    finally:
        made.stop()


@pytest.mark.clause("Z8", "Z1")
def test_executor_worker_daemon_and_driver_are_killed(stage: ClusterStage) -> None:
    append_events(stage.server, EVENTS, aggregates=AGGREGATES)
    stage.run(
        "publisher",
        "worker",
        "projection",
        kills=[
            Kill(lambda: 0 < stage.published(TOPICS) < EVENTS, kill_executor),
            Kill(lambda: 0 < stage.counted("bills") < EVENTS, kill_driver),
            Kill(lambda: 0 < stage.rows_done("projection-newest") < EVENTS, kill_daemon),
        ],
    )
    assert stage.starts == 2
    billed = stage.selected("SELECT event_id FROM bills ORDER BY event_id")
    assert billed == [(one,) for one in sorted(f"e{number}" for number in range(1, EVENTS + 1))]
    assert found(stage) == expected()
    stage.run("rebuild", kills=[Kill(lambda: f"of {EVENTS:,} messages" in stage.said(), kill_executor)])
    assert found(stage) == expected()
    assert stage.selected("SELECT event_id FROM bills ORDER BY event_id") == billed


def found(stage: ClusterStage) -> dict[str, Rows]:
    return {
        name: {
            (row["aggregate_type"], row["aggregate_id"]): (row["sequence_number"], row["state"])
            for row in rows(stage.options, name)
        }
        for name in ("newest", "totals")
    }


def expected() -> dict[str, Rows]:
    newest: Rows = {}
    totals: dict[tuple[str, str], int] = {}
    for number in range(1, EVENTS + 1):
        key = KINDS[number % 2], f"a{number % AGGREGATES}"
        newest[key] = newest.get(key, (0, None))[0] + 1, {"n": number}
        totals[key] = totals.get(key, 0) + number
    return {"newest": newest, "totals": {key: (newest[key][0], total) for key, total in totals.items()}}

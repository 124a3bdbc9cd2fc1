"""A publisher to Kafka that is killed, and a broker that dies under it: each event once, in order."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from tests.services.kafka_driver import run_to_the_end, run_until
from tests.services.kafka_publishing import EventSource, arrived
from tests.services_kafka import KafkaServer, kafka, private_kafka
from tests.spark.publishing import assert_once_and_in_order
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.clause("U1", "U2", "U7", "X1", "Z6"), pytest.mark.timeout(1800)]
__all__ = ["kafka", "private_kafka"]

EVENTS = 4_000
KILL_AT = 700


def written(cluster: KafkaCluster, source: EventSource) -> int:
    """How many offsets the topics have, with those of open and aborted transactions."""
    return sum(cluster.end_offsets(cluster.topic_ids(source.topics), committed=False).values())


def test_a_publisher_that_is_killed_within_a_transaction_loses_and_doubles_nothing(
    kafka: KafkaOptions, source: EventSource, tmp_path: Path
) -> None:
    """Spark's Python processes are not in the group that is killed: what they still commit is part of the
    story."""
    options = source.options(kafka, transaction_events=300, flush_events=100)
    source.append(EVENTS, aggregates=97)
    with (tmp_path / "driver.log").open("wb") as log, KafkaCluster(kafka) as cluster:
        run_until(options, lambda: written(cluster, source) >= KILL_AT, log)
        assert written(cluster, source) >= KILL_AT, "it died before anything was sent"
        source.append(50, first=EVENTS + 1, aggregates=97)
        run_to_the_end(options, log)
    assert_once_and_in_order(arrived(kafka, source), EVENTS + 50)


@pytest.mark.clause("Z4")
def test_a_broker_that_is_killed_and_started_again_costs_nothing_but_time(
    private_kafka: KafkaServer, source: EventSource, tmp_path: Path
) -> None:
    """The command as users run it, with nothing but the two settings; it restarts its query by itself."""
    source.append(3_000, aggregates=31)
    kafka = private_kafka.options
    environ = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("DRIFTQ_", "EVENT_"))},
        "DRIFTQ_TRANSPORT": "kafka",
        "DRIFTQ_KAFKA_BOOTSTRAP": private_kafka.bootstrap,
        "EVENT_PUBLISHER_KAFKA_TRANSACTION_EVENTS": "50",
    }
    place = ["--url", f"http://127.0.0.1:{source.server.port}", "--data", str(source.server.data)]
    with (tmp_path / "output").open("wb") as output:
        words = ["pipeline", "run", "publisher", "--master", "local[2]", *place]
        command = [sys.executable, "-m", "driftq", *words]
        publisher = subprocess.Popen(command, env=environ, stdout=output, stderr=subprocess.STDOUT)
    try:
        with KafkaCluster(kafka) as cluster:
            wait_until("some are sent", lambda: written(cluster, source) > 500, within_s=600)
        private_kafka.kill()
        source.append(500, first=3_001, aggregates=31)
        private_kafka.start()
        wait_until("all are there", lambda: len(arrived(kafka, source)) >= 3_500, within_s=600)
        private_kafka.restart()
        source.append(500, first=3_501, aggregates=31)
        wait_until("all are there", lambda: len(arrived(kafka, source)) >= 4_000, within_s=600)
        publisher.send_signal(signal.SIGTERM)
        assert publisher.wait(timeout=120) == 0, (tmp_path / "output").read_text()[-2_000:]
    finally:
        publisher.kill()
        publisher.wait()
    assert_once_and_in_order(arrived(kafka, source), 4_000)

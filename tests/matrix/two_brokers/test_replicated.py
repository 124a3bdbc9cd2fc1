"""Two brokers with replication: leaders move and each broker is killed while publisher and projection run."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from confluent_kafka.admin import AdminClient

from driftq.model.options.kafka import KafkaOptions
from tests.acceptance.pipeline.running import PipelineCommands
from tests.harness import ServerProcess
from tests.services.kafka_publishing import EventSource, arrived
from tests.services_kafka import KafkaServer, connector_jars, start_kafka
from tests.spark.publishing import assert_once_and_in_order
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.clause("U7", "Z4", "Z6", "X1"), pytest.mark.timeout(2400)]

EVENTS = 6_000
AGGREGATES = 31
WITHIN_S = 900.0


@pytest.fixture
def brokers() -> Iterator[KafkaServer]:
    server = start_kafka(brokers=2)
    yield server
    server.remove()


@pytest.fixture
def source(tmp_path: Path) -> Iterator[EventSource]:
    with ServerProcess(tmp_path / "data") as started:
        yield EventSource.beside(started)


def test_a_killed_leader_costs_neither_an_event_nor_a_row(
    brokers: KafkaServer, source: EventSource, tmp_path: Path
) -> None:
    kafka, pipeline = brokers.options, commands(brokers, source)
    source.append(EVENTS // 3, aggregates=AGGREGATES)
    running = pipeline.start(
        "run", "publisher", "projection", "--master", "local[2]", errors=tmp_path / "said"
    )
    try:
        wait_until("it is under way", lambda: committed(kafka, source) > 300, within_s=WITHIN_S)
        for number, first in ((1, EVENTS // 3), (2, 2 * EVENTS // 3)):
            led = leaders(kafka, source).count(number)
            brokers.kill(number)
            assert led, f"broker {number} led nothing, so that nothing moved"
            source.append(EVENTS // 3, first=first + 1, aggregates=AGGREGATES)
            wait_until(
                "the other broker goes on",
                lambda first=first: committed(kafka, source) >= first + 1,  # type: ignore[misc]
                within_s=WITHIN_S,
            )
            brokers.start(number)
            wait_until("both have every message", lambda: in_sync(kafka, source), within_s=WITHIN_S)
        wait_until("all are there", lambda: committed(kafka, source) >= EVENTS, within_s=WITHIN_S)
        wait_until("all are applied", lambda: applied(pipeline) == EVENTS, within_s=WITHIN_S)
        running.send_signal(signal.SIGTERM)
        assert running.wait(timeout=180) == 0, (tmp_path / "said").read_text()[-3_000:]
    finally:
        running.kill()
        running.wait()
    assert_once_and_in_order(arrived(kafka, source), EVENTS)


def commands(brokers: KafkaServer, source: EventSource) -> PipelineCommands:
    jars = ",".join(map(str, connector_jars(pyspark.__version__)))
    env = {
        "DRIFTQ_TRANSPORT": "kafka",
        "DRIFTQ_KAFKA_BOOTSTRAP": brokers.bootstrap,
        "DRIFTQ_KAFKA_TOPIC_REPLICAS": "2",
        "DRIFTQ_SPARK_KAFKA_JARS": jars,
        "EVENT_PUBLISHER_KAFKA_TRANSACTION_EVENTS": "100",
        "EVENT_PUBLISHER_KAFKA_FLUSH_TIMEOUT_SECONDS": "60",
    }
    return PipelineCommands(f"http://127.0.0.1:{source.server.port}", source.server.data, env=env)


def committed(kafka: KafkaOptions, source: EventSource) -> int:
    return len(arrived(kafka, source))


def applied(pipeline: PipelineCommands) -> int:
    """The events that are in the read model: it has the last sequence of each aggregate."""
    return sum(row["sequence_number"] for row in pipeline.rows("latest"))


def leaders(kafka: KafkaOptions, source: EventSource) -> list[int]:
    """The broker that leads each partition."""
    found = AdminClient({"bootstrap.servers": str(kafka.bootstrap)}).list_topics(timeout=30).topics
    return [one.leader for topic in source.topics for one in found[topic].partitions.values()]


def in_sync(kafka: KafkaOptions, source: EventSource) -> bool:
    """Whether both brokers have every partition of every topic, Kafka's own among them."""
    found = AdminClient({"bootstrap.servers": str(kafka.bootstrap)}).list_topics(timeout=30).topics
    return all(len(one.isrs) == 2 for topic in found.values() for one in topic.partitions.values())

"""From the event log to Kafka: transactions of a lane each, beside the same events sent by a plain producer.

The time of the publisher is from the start of the query to its last commit. The plain producer sends the same
keys and values from one process with librdkafka's defaults and without transactions: what it loses or doubles
when it is killed, nobody knows.
"""

import time
from dataclasses import replace
from http.client import HTTPConnection
from typing import Any

import msgspec
from confluent_kafka import Producer

from bench.harness.figure import Figure, at_least
from bench.machine import Server, folder
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.pipeline import KAFKA
from driftq.pipeline import open_session
from driftq.pipeline.publisher.job import Publisher
from driftq.settings import load_settings
from tests.services_kafka import KafkaServer

EVENTS = 2_000_000
AGGREGATES = 100_000
PARTITIONS = 4
APPENDED_AT_ONCE = 500
RATE_MIN = 15_000
SEALED_S = 900.0
KINDS = ("often", "seldom")
PAYLOAD = {"text": "x" * 150}


def kafka_publish(events: int = EVENTS) -> list[Figure]:
    """One run over the whole log, and then the same values without any guarantee."""
    cluster = KafkaServer()
    try:
        with folder() as place:
            server = Server(place / "data")
            try:
                fill(server.port, events)
                ours = events / _publish(server.port, str(place / "data"), cluster.options, events)
            finally:
                server.stop()
        alone = events / _send_plainly(cluster.options, events)
    finally:
        cluster.remove()
    return [
        Figure(f"plain producer → Kafka, {events:,} messages, no transactions", alone, "/s"),
        Figure("event log → Kafka, transactional per lane", ours, "/s", at_least(RATE_MIN)),
        Figure("… as a part of the plain producer", ours / alone, "×"),
    ]


def fill(port: int, events: int) -> None:
    """Append the events and wait until the log has all of them."""
    connection = HTTPConnection("127.0.0.1", port)
    for start in range(0, events, APPENDED_AT_ONCE):
        some = [_event(number) for number in range(start, min(start + APPENDED_AT_ONCE, events))]
        answer = ask(connection, "POST", "/v1/events", some)
        assert answer["failed"] == 0
    end = time.monotonic() + SEALED_S
    while int(ask(connection, "GET", "/v1/events/log/end")["position"]) < events:
        if time.monotonic() > end:
            raise RuntimeError("the event log does not have all events in time")
        time.sleep(0.2)
    connection.close()


def _publish(port: int, data: str, kafka: KafkaOptions, events: int) -> float:
    options = load_settings().pipeline(url=f"http://127.0.0.1:{port}", data=data)
    options = replace(options, transport=KAFKA, kafka=kafka)
    spark = open_session(options, app_name="bench", reads_kafka=False)
    publisher = Publisher(options)
    began = time.perf_counter()
    publisher.start(spark, once=True).awaitTermination()
    took = time.perf_counter() - began
    spark.stop()
    with KafkaCluster(kafka) as cluster:
        ends = cluster.end_offsets(cluster.topic_ids([f"events.{kind}" for kind in KINDS]), committed=True)
    assert sum(ends.values()) >= events, ends  # Markers of transactions have offsets too.
    return took


def _send_plainly(kafka: KafkaOptions, events: int) -> float:
    values = [(f"a{number % AGGREGATES}", msgspec.json.encode(_event(number))) for number in range(events)]
    with KafkaCluster(kafka) as cluster:
        cluster.create_topic("plain", partitions=PARTITIONS)
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 20})
    began = time.perf_counter()
    for key, value in values:
        while True:
            try:
                producer.produce("plain", value, key)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(120) == 0
    took = time.perf_counter() - began
    with KafkaCluster(kafka) as cluster:
        assert sum(cluster.end_offsets(["plain"]).values()) == events
    return took


def _event(number: int) -> dict[str, object]:
    return {
        "event_id": f"{number:016x}",
        "aggregate_type": KINDS[number % 10 == 0],
        "aggregate_id": f"a{number % AGGREGATES}",
        "event_type": "Changed",
        "kind": "event",
        "operation": "append",
        "payload": PAYLOAD,
    }


def ask(connection: HTTPConnection, method: str, path: str, body: object = None) -> dict[str, Any]:
    """A call to the server, which must not refuse it."""
    text = None if body is None else msgspec.json.encode(body)
    connection.request(method, path, text, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    read = answer.read()
    assert answer.status < 300, read[:500]
    found: dict[str, Any] = msgspec.json.decode(read)
    return found

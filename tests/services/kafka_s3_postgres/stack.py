"""A server with events in PostgreSQL and segments on S3, and a publisher that carries them to Kafka.

The publisher is the command as users run it. It runs all the time, and tests may kill it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import pyspark
from confluent_kafka import Producer

from driftq.eventstore.objects import S3Access, open_objects
from driftq.eventstore.published import PublishedEvent, topic_of
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.pipeline import PipelineOptions
from driftq.settings import load_settings
from tests.harness import ServerProcess
from tests.services.kafka_publishing import messages
from tests.services_kafka import connector_jars
from tests.services_s3 import S3Server
from tests.support.killing import kill_tree
from tests.support.waiting import wait_until

ARRIVES_WITHIN_S = 600.0
LEASE_S = "20"


class Stack:
    """The systems together. Each test has an aggregate type, and so a topic, of its own."""

    def __init__(self, folder: Path, *, database_url: str, s3: S3Server, kafka: KafkaOptions) -> None:
        self.database_url = database_url
        self.kafka = kafka
        self.settings = {
            "DRIFTQ_DATABASE_URL": database_url,
            "DRIFTQ_OBJECTS_URL": s3.fresh_url(),
            "DRIFTQ_S3_ENDPOINT": s3.endpoint,
            "DRIFTQ_TRANSPORT": "kafka",
            "DRIFTQ_KAFKA_BOOTSTRAP": str(kafka.bootstrap),
            "DRIFTQ_SPARK_KAFKA_JARS": ",".join(map(str, connector_jars(pyspark.__version__))),
            "PROCESSED_EVENT_LEASE_TIMEOUT_SECONDS": LEASE_S,
            "PROCESSED_EVENT_HEARTBEAT_INTERVAL_SECONDS": "2",
            "EVENT_PUBLISHER_KAFKA_TRANSACTION_EVENTS": "50",
            "EVENT_PUBLISHER_KAFKA_FLUSH_TIMEOUT_SECONDS": "60",
        }
        self.environ = self.settings | {
            "AWS_ACCESS_KEY_ID": s3.access_key_id,
            "AWS_SECRET_ACCESS_KEY": s3.secret_access_key,
            "AWS_REGION": s3.region,
        }
        self._access = S3Access(
            endpoint=s3.endpoint,
            region=s3.region,
            access_key_id=s3.access_key_id,
            secret_access_key=s3.secret_access_key,
        )
        self.server = ServerProcess(folder / "data", env=self.environ)
        self._folder = folder
        self._publisher: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._driftq("db", "upgrade")
        self.server.start()
        self.start_publisher()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill_publisher()
        self.server.kill()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def options(self, folder: Path, **settings: str) -> PipelineOptions:
        """What a job of this stack is told."""
        return load_settings(environ=self.settings | settings).pipeline(url=self.url, data=str(folder))

    def start_publisher(self) -> None:
        words = ["pipeline", "run", "publisher", "--master", "local[1]"]
        where = ["--url", self.url, "--data", str(self.server.data)]
        with (self._folder / "publisher").open("ab") as output:
            self._publisher = subprocess.Popen(
                [sys.executable, "-m", "driftq", *words, *where],
                env=os.environ | self.environ,
                stdout=output,
                stderr=output,
            )

    def kill_publisher(self) -> None:
        """SIGKILL for the command, its driver, the JVM and Spark's Python workers."""
        if self._publisher is not None:
            kill_tree(self._publisher)
            self._publisher = None

    def append(self, kind: str, aggregates: Sequence[str], *, first: int = 0) -> None:
        """The next event of each aggregate; its id has a number, from `first` on."""
        self.post(
            [
                _event(kind, aggregate, f"{kind}-{number}", number)
                for number, aggregate in enumerate(aggregates, first)
            ]
        )

    def append_sequences(self, kind: str, events: Sequence[tuple[str, int]]) -> None:
        """Events that are named by aggregate and sequence."""
        self.post([_event(kind, name, f"{name}-{sequence}", sequence) for name, sequence in events])

    def post(self, events: Sequence[Mapping[str, Any]]) -> None:
        for start in range(0, len(events), 500):
            answer = self.server.client().post("/v1/events", events[start : start + 500])
            assert answer.status in (200, 201), answer
            assert answer.body["failed"] == 0

    def arrived(self, kind: str) -> list[PublishedEvent]:
        """What is committed on the topic of an aggregate type."""
        return [message.event for message in messages(self.kafka, [topic_of(kind)])]

    def wait_for(self, kind: str, count: int) -> None:
        """Until so many events are on Kafka."""
        self._alive()
        wait_until(
            f"{count} events of {kind} are on Kafka",
            lambda: self._alive() and len(self.arrived(kind)) >= count,
            within_s=ARRIVES_WITHIN_S,
        )

    def send(self, topic: str, values: Sequence[tuple[str, str]]) -> None:
        """Keys and values straight to Kafka, as a producer in disorder does."""
        producer = Producer({"bootstrap.servers": str(self.kafka.bootstrap), "partitioner": "murmur2_random"})
        with KafkaCluster(self.kafka) as cluster:
            cluster.create_topic(topic, partitions=2)
        for key, value in values:
            producer.produce(topic, value, key)
            producer.poll(0)
        assert producer.flush(60) == 0

    def wait_for_segments(self) -> None:
        """Until the server has written events to S3, which it does at least once a minute."""
        objects = open_objects(self.settings["DRIFTQ_OBJECTS_URL"], access=self._access)
        wait_until(
            "a segment is on S3",
            lambda: any(name.endswith(".parquet") for name in objects.names("")),
            within_s=ARRIVES_WITHIN_S,
        )

    def _alive(self) -> bool:
        assert self._publisher is not None
        assert self._publisher.poll() is None, (self._folder / "publisher").read_text()[-3_000:]
        return True

    def _driftq(self, *words: str) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "driftq", *words],
            env=os.environ | self.environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def _event(kind: str, aggregate: str, event_id: str, number: int) -> dict[str, Any]:
    return {
        "event_id": event_id,
        "aggregate_type": kind,
        "aggregate_id": aggregate,
        "event_type": "Changed",
        "kind": "event",
        "operation": "append",
        "payload": {"n": number},
    }


def new_kind(name: str) -> str:
    """An aggregate type that no other test uses."""
    return f"{name}-{uuid.uuid4().hex[:8]}"

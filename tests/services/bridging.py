"""Topics on both sides of a bridge, filled and compared message by message."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as arrow
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException

import driftq
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions
from driftq.model.options.pipeline import PipelineOptions
from driftq.model.time import parse_rfc3339
from driftq.pipeline.bridge import to_driftq, to_kafka
from driftq.pipeline.bridge.batches import CopyReport
from driftq.pipeline.bridge.job import Bridge, BridgeRun
from driftq.pipeline.bridge.route import BridgeRoute, parse_route
from driftq.pipeline.bridge.to_kafka import ToKafkaRun
from driftq.settings import load_settings
from tests.harness import ServerProcess
from tests.services.kafka_publishing import KafkaMessage, messages
from tests.services_kafka import connector_jars
from tests.spark.publishing import TOO_BUSY
from tests.support.killing import kill_tree
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Record = dict[str, Any]
KEYS = 17
_STARTS = 8


@dataclass(frozen=True)
class BridgeStage:
    """One topic on each side, which no other test uses."""

    server: ServerProcess
    kafka: KafkaOptions
    topic: str
    to_kafka: bool

    @classmethod
    def beside(cls, server: ServerProcess, kafka: KafkaOptions, *, to_kafka: bool) -> BridgeStage:
        return cls(server, kafka, f"orders-{uuid.uuid4().hex[:8]}", to_kafka)

    @property
    def ends(self) -> tuple[str, str]:
        ends = f"driftq:{self.topic}", f"kafka:{self.topic}"
        return ends if self.to_kafka else ends[::-1]

    @property
    def route(self) -> BridgeRoute:
        return parse_route(*self.ends)

    @property
    def options(self) -> PipelineOptions:
        found = load_settings(environ={}).pipeline(url=self.url, data=str(self.server.data))
        sizes = replace(
            found.publisher, transaction_events=50, flush_events=20, batch_events=50, flush_timeout_seconds=60
        )
        return replace(found, kafka=self.kafka, publisher=sizes)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def bridge(self) -> Bridge:
        return Bridge(self.options, self.route)

    def on_kafka(self) -> list[KafkaMessage]:
        return messages(self.kafka, [self.topic])

    def on_driftq(self) -> list[Record]:
        answer = self.server.client().get(f"/v1/topics/{self.topic}/records")
        return [] if answer.status == 404 else [json.loads(line) for line in answer.body.splitlines()]

    def copy(self, spark: SparkSession) -> None:
        """One run over everything that is there, started again where this machine was too busy for Spark."""
        for starts_left in reversed(range(_STARTS)):
            bridge = self.bridge()
            bridge.check()
            query = bridge.start(spark, once=True)
            try:
                assert query.awaitTermination(300)
                return
            except StreamingQueryException as failure:
                if TOO_BUSY not in str(failure) or not starts_left:
                    raise
            finally:
                query.stop()
                bridge.close()

    def feed(
        self, run: BridgeRun, where: Callable[[int, int], bool] | None = None, *, times: int = 1
    ) -> None:
        """One batch of a run, as Spark's tasks would copy it: these rows of the source, else all left.

        With `times`, each task runs so often, as Spark repeats one whose process died.
        """
        reports: list[CopyReport] = []
        where = where or (lambda partition, offset: offset >= run.starting.get(partition, 0))
        if isinstance(run, ToKafkaRun):
            stored = [
                _stored(self.topic, one) for one in self.on_driftq() if where(one["partition"], one["offset"])
            ]
            run.require_target()
            task = run.task()
            lanes = {row["partition"] for row in stored}
            parts = {lane: [row for row in stored if row["partition"] == lane] for lane in lanes}
            for _ in range(times):
                reports = [task.copy(lane, iter([_batch(rows)])) for lane, rows in parts.items()]
        else:
            found = [_fetched(one) for one in self.on_kafka() if where(one.partition, one.offset)]
            for _ in range(times):
                reports = [run.task().copy(iter([_batch(found)]))]
        run.confirm(reports)

    def fill(self, count: int, *, first: int = 0) -> None:
        """Messages with their number as the value; most have a key, some an envelope."""
        if self.to_kafka:
            self._fill_driftq(range(first, first + count))
        else:
            self._fill_kafka(range(first, first + count))

    def assert_copied(self, count: int) -> None:
        """Each of `count` messages is on the target once, those of a key in their order."""
        if self.to_kafka:
            copied = [(one.key or b"").decode() for one in self.on_kafka()], self._values_on_kafka()
        else:
            found = [one for one in self.on_driftq() if one["key"] != "odd"]
            copied = [one["key"] for one in found], [int(one["value"]) for one in found]
        assert sorted(copied[1]) == list(range(count))
        last: dict[str, int] = {}
        for key, value in zip(*copied, strict=True):
            assert value > last.get(key, -1) or not key
            last[key] = value

    def next_offsets(self, *, before: int) -> dict[int, int]:
        """Of each partition of the source, what follows the last message with a number below this one."""
        if self.to_kafka:
            found = [(one["partition"], one["offset"], int(one["value"])) for one in self.on_driftq()]
        else:
            found = [(one.partition, one.offset, int(one.value)) for one in self.on_kafka()]
        ends: dict[int, int] = {}
        for partition, offset, number in found:
            if number < before:
                ends[partition] = max(offset + 1, ends.get(partition, 0))
        return ends

    def reversed(self) -> BridgeStage:
        return replace(self, to_kafka=not self.to_kafka)

    def delete_target(self) -> None:
        """Deleted; DriftQ's is created again, since a bridge that runs creates no topic."""
        if self.to_kafka:
            with KafkaCluster(self.kafka) as cluster:
                cluster.delete_topic(self.topic)
            return
        with driftq.Client(self.url) as client:
            client.delete_topic(self.topic)
        self.server.client().post("/v1/topics", {"name": self.topic, "partitions": 1})

    def remove_before(self, offsets: dict[int, int]) -> None:
        """As Kafka's retention does."""
        admin = AdminClient({"bootstrap.servers": str(self.kafka.bootstrap)})
        places = [TopicPartition(self.topic, partition, offset) for partition, offset in offsets.items()]
        for done in admin.delete_records(places).values():
            done.result()

    def copied(self) -> int:
        """How many messages the target has, as far as it can be told quickly."""
        if not self.to_kafka:
            return len(self.on_driftq())
        with KafkaCluster(self.kafka) as cluster:
            return sum(cluster.end_offsets(cluster.topic_ids([self.topic]), committed=False).values())

    def kill_midway(self, folder: Path, *, at: int) -> None:
        """`driftq pipeline run bridge`, until the target has so many messages: then SIGKILL for all of it."""
        source, target = self.ends
        words = ["run", "bridge", "--from", source, "--to", target, "--url", self.url]
        command = [sys.executable, "-m", "driftq", "pipeline", *words, "--data", str(self.server.data)]
        with (folder / "output").open("wb") as output:
            running = subprocess.Popen(command, env=self._environ(), stdout=output, stderr=output)
        try:
            wait_until(
                "it is midway", lambda: running.poll() is not None or self.copied() >= at, within_s=600
            )
            assert running.poll() is None, (folder / "output").read_text()[-2_000:]
        finally:
            kill_tree(running)

    def _values_on_kafka(self) -> list[int]:
        return [int(one.value) for one in self.on_kafka()]

    def _environ(self) -> dict[str, str]:
        import pyspark

        kept = {name: value for name, value in os.environ.items() if not name.startswith("DRIFTQ_")}
        return kept | {
            "DRIFTQ_KAFKA_BOOTSTRAP": str(self.kafka.bootstrap),
            "DRIFTQ_SPARK_KAFKA_JARS": ",".join(map(str, connector_jars(pyspark.__version__))),
            "EVENT_PUBLISHER_BATCH_SIZE": "20",
            "EVENT_PUBLISHER_KAFKA_TRANSACTION_EVENTS": "50",
            "EVENT_PUBLISHER_KAFKA_FLUSH_TIMEOUT_SECONDS": "60",
        }

    def _fill_driftq(self, numbers: Sequence[int]) -> None:
        client = self.server.client()
        client.post("/v1/topics", {"name": self.topic, "partitions": 5})
        for start in range(0, len(numbers), 1_000):
            body = {"messages": [self._message(number) for number in numbers[start : start + 1_000]]}
            answer = client.post("/v1/produce/batch", body)
            assert (answer.status, answer.body["failed"]) == (200, 0)

    def _message(self, number: int) -> Record:
        message: Record = {"topic": self.topic, "key": key_of(number), "value": str(number)}
        if number % 5 == 0:
            message["envelope"] = {"run_id": f"run-{number}", "idempotency_key": f"i{number}"}
        return message

    def _fill_kafka(self, numbers: Sequence[int]) -> None:
        with KafkaCluster(self.kafka) as cluster:
            cluster.create_topic(self.topic, partitions=3)
        producer = Producer({"bootstrap.servers": str(self.kafka.bootstrap), "partitioner": "murmur2_random"})
        for number in numbers:
            producer.produce(self.topic, str(number), key_of(number) or None)
            producer.poll(0)
        assert producer.flush(60) == 0


def _stored(topic: str, record: Record) -> Record:
    """A message of DriftQ as Spark's source has it."""
    envelope = record.get("envelope")
    at = dt.datetime.fromtimestamp(parse_rfc3339(record["timestamp"]) / 1000, dt.UTC)
    return record | {
        "topic": topic,
        "timestamp": at,
        "envelope": None if envelope is None else json.dumps(envelope),
        "headers": None,
    }


def _fetched(message: KafkaMessage) -> Record:
    """A message of Kafka as the bridge takes it from Spark's source."""
    texts = {"key": (message.key or b"").decode(), "value": message.value.decode()}
    return {"partition": message.partition, "offset": message.offset, **texts} | dict.fromkeys(
        ("envelope", "traceparent", "headers")
    )


def _batch(rows: Sequence[Record]) -> arrow.RecordBatch:
    names = to_kafka.COLUMNS if rows and "timestamp" in rows[0] else to_driftq.COLUMNS
    kinds = {"timestamp": arrow.timestamp("us", "UTC")}
    ordered = sorted(rows, key=lambda row: (row["partition"], row["offset"]))
    columns = {name: arrow.array([row[name] for row in ordered], kinds.get(name)) for name in names}
    return arrow.RecordBatch.from_pydict(columns)


def key_of(number: int) -> str:
    return f"key-{number % KEYS}" if number % KEYS else ""


def same_message(copy: KafkaMessage, record: Record) -> bool:
    """Whether a message on Kafka has everything that the record on DriftQ has."""
    envelope = copy.headers.get("driftq.envelope")
    return (
        copy.value.decode() == record["value"]
        and (copy.key or b"").decode() == record["key"]
        and copy.timestamp_ms == parse_rfc3339(record["timestamp"])
        and (None if envelope is None else json.loads(envelope)) == record.get("envelope")
    )

"""`driftq pipeline run bridge` killed midway: each message is copied once, with all that it carries."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from driftq.model.options.kafka import KafkaOptions
from tests.harness import ServerProcess
from tests.services.bridging import BridgeStage, same_message
from tests.services_kafka import kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.clause("Z10", "Z6"), pytest.mark.timeout(1500)]
__all__ = ["kafka"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("bridge") / "data") as started:
        yield started


def test_to_kafka_with_key_value_time_envelope_and_origin(
    server: ServerProcess, kafka: KafkaOptions, spark: SparkSession, tmp_path: Path
) -> None:
    stage = BridgeStage.beside(server, kafka, to_kafka=True)
    stage.fill(3_000)
    stage.kill_midway(tmp_path, at=200)
    stage.fill(50, first=3_000)
    stage.copy(spark)
    stage.assert_copied(3_050)
    records = {(one["partition"], one["offset"]): one for one in stage.on_driftq()}
    found = {
        (int(one.headers["driftq.partition"]), int(one.headers["driftq.offset"])): one
        for one in stage.on_kafka()
    }
    assert set(found) == set(records)
    assert all(same_message(copy, records[where]) for where, copy in found.items())
    assert {one.partition for one in found.values() if one.key is None} == {0}, "they keep their partition"


def test_to_driftq_with_what_a_text_and_an_envelope_can_carry(
    server: ServerProcess, kafka: KafkaOptions, spark: SparkSession, tmp_path: Path
) -> None:
    stage = BridgeStage.beside(server, kafka, to_kafka=False)
    stage.fill(3_000)
    stage.kill_midway(tmp_path, at=200)
    stage.fill(50, first=3_000)
    send_oddities(stage)
    stage.copy(spark)
    odd = [one for one in stage.on_driftq() if one["key"] == "odd"]
    assert [one["value"] for one in odd] == ["a", "b", "not UTF-8, in base64: /wA=", ""]
    envelopes = [one.get("envelope") for one in odd]
    assert envelopes == [{"run_id": "r"}, {"traceparent": "00-1-2-00"}, None, None]
    stage.assert_copied(3_050)


def send_oddities(stage: BridgeStage) -> None:
    """Headers that mean something to us and others, bytes, a tombstone, and what was never committed."""
    given = {
        "run_id": "r",
        "idempotency_key": "i",
        "partition_override": 3,
        "deadline": "2001-01-01T00:00:00Z",
    }
    servers = {"bootstrap.servers": str(stage.kafka.bootstrap)}
    producer = Producer(servers)
    send, topic = producer.produce, stage.topic
    send(topic, "a", "odd", headers=[("x", "y"), ("driftq.envelope", json.dumps(given))])
    send(topic, "b", "odd", headers=[("traceparent", "00-1-2-00"), ("driftq.envelope", "{")])
    send(topic, b"\xff\x00", "odd")
    send(topic, None, "odd")
    assert producer.flush(60) == 0
    aborted = Producer(servers | {"transactional.id": stage.topic})
    aborted.init_transactions(60)
    aborted.begin_transaction()
    aborted.produce(topic, "never committed", "odd")
    aborted.flush(60)
    aborted.abort_transaction(60)

"""Workers and projections killed at every point, over Kafka, S3 and PostgreSQL.

The workers' effects are documents in OpenSearch and Redis, among others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from driftq.eventstore.published import topic_of
from tests.services.kafka_s3_postgres.stack import Stack, new_kind
from tests.services_kafka import KafkaServer
from tests.spark.events import history, mixed
from tests.spark.killed_worker.theatre import Theatre, assert_documents
from tests.spark.killed_worker.theatre import play as play_workers
from tests.spark.mortal_projection import TARGETS
from tests.spark.projection_driver import assert_whole
from tests.spark.projection_driver import play as play_projections

pytestmark = [pytest.mark.clause("X9", "X9a", "Z4", "Z6"), pytest.mark.timeout(2400)]


@dataclass(frozen=True, kw_only=True)
class KafkaTheatre(Theatre):
    """Its events go through the event log and the publisher."""

    stack: Stack
    kind: str

    def create_topic(self) -> None:
        """The publisher creates it."""

    def publish(self, events: Sequence[tuple[str, int]]) -> None:
        before = len(self.stack.arrived(self.kind))
        self.stack.append_sequences(self.kind, events)
        self.stack.wait_for(self.kind, before + len(events))


@pytest.mark.clause("X2", "X9b", "V5", "V6", "K2", "K4", "K6")
def test_workers_killed_at_each_point_leave_one_effect_each_or_ask(
    stack: Stack, documents: list[str], tmp_path: Path
) -> None:
    kind = new_kind("killed")
    environ = stack.environ | {"TOPIC": topic_of(kind), "DOCUMENTS": " ".join(documents)}
    del environ["DRIFTQ_DATABASE_URL"]  # Each worker is told its own: half of them are on SQLite.
    theatre = KafkaTheatre(
        stack.server, tmp_path, stack.database_url, without_lease(environ), stack=stack, kind=kind
    )
    play_workers(theatre)
    assert_documents(theatre, documents)


def without_lease(environ: dict[str, str]) -> dict[str, str]:
    """A lease that nobody could wait for is part of the story."""
    return {name: value for name, value in environ.items() if not name.startswith("PROCESSED_EVENT_")}


@pytest.mark.clause("X3", "X4", "V1")
def test_projections_killed_at_each_point_of_shuffled_events_are_whole(
    stack: Stack, private_kafka: KafkaServer, tmp_path: Path
) -> None:
    """The broker restarts as well, before the last events come."""
    topic = topic_of(new_kind("mortal"))
    events = history(40, 10)
    arriving = mixed(events, seed=3)
    told: dict[str, Any] = {
        "url": stack.url,
        "data": str(tmp_path),
        "sqlite": {name: f"{tmp_path}/{name}.db" for name in TARGETS},  # A file has one writer at a time.
        "postgres": stack.database_url,
        "topic": topic,
    }

    def send(some: Sequence[dict[str, Any]]) -> None:
        if some[-1] is arriving[-1]:
            private_kafka.restart()
        stack.send(topic, [(each["aggregate_id"], json.dumps(each)) for each in some])

    play_projections(told, arriving, send, environ=stack.environ)
    assert_whole(told, events)

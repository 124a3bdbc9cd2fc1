"""Events, a publisher over them and what arrives, short to write."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.errors import StreamingQueryException

from driftq.eventstore.published import PublishedEvent, decode_published
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.publisher.job import Publisher
from driftq.publishing.checkpoint import Checkpoint
from driftq.registry import ClaimOutcome, Effect, Handler
from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.settings import load_settings
from driftq.sql import open_database, upgrade
from tests.harness import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOO_BUSY = "Python worker failed to connect back"
"""Spark gives a Python process ten seconds to start."""
KINDS = ("order", "in voice")
TOPICS = ("events.order", "events.in_20voice")


def options_for(server: ServerProcess, **publisher: Any) -> PipelineOptions:
    """What a pipeline beside this server is told; keywords are settings of the publisher."""
    options = load_settings(environ={}).pipeline(url=f"http://127.0.0.1:{server.port}", data=str(server.data))
    return replace(options, publisher=replace(options.publisher, **publisher))


def append_events(server: ServerProcess, count: int, *, first: int = 1, aggregates: int = 7) -> None:
    """Events of a few aggregates of two types, each with its own id."""
    client = server.client()
    for start in range(first, first + count, 500):
        events = [
            {
                "event_id": f"e{number}",
                "aggregate_type": KINDS[number % 2],
                "aggregate_id": f"a{number % aggregates}",
                "event_type": "Changed",
                "kind": "event",
                "operation": "append",
                "payload": {"n": number},
            }
            for number in range(start, min(start + 500, first + count))
        ]
        answer = client.post("/v1/events", events)
        assert answer.status in (200, 201), answer
        assert answer.body["failed"] == 0


def publish(spark: SparkSession, options: PipelineOptions) -> None:
    """One run over everything that is there, started again where this machine was too busy for Spark."""
    for starts_left in (2, 1, 0):
        publisher = Publisher(options)
        query = publisher.start(spark, once=True)
        try:
            assert query.awaitTermination(240)
            publisher.close()
            return
        except StreamingQueryException as failure:
            if TOO_BUSY not in str(failure) or not starts_left:
                raise


def arrived(server: ServerProcess, topics: Sequence[str] = TOPICS) -> list[PublishedEvent]:
    """Everything on the topics, partition by partition in the order of its offsets."""
    client = server.client()
    found: list[PublishedEvent] = []
    for topic in topics:
        answer = client.get(f"/v1/topics/{topic}/records")
        if answer.status == 404:
            continue
        lines = [json.loads(line) for line in answer.body.splitlines()]
        events = [decode_published(line["value"]) for line in lines]
        assert [line["key"] for line in lines] == [event.aggregate_id for event in events]
        found += events
    return found


def assert_once_and_in_order(events: Sequence[PublishedEvent], count: int) -> None:
    """Each of `count` events is there once, and every aggregate in the order of its sequence."""
    counted = Counter(event.event_id for event in events)
    expected = {f"e{number}" for number in range(1, count + 1)}
    assert set(counted) == expected, (len(expected - set(counted)), "are missing")
    assert max(counted.values()) == 1, "some are there twice"
    assert_in_order(events)


def assert_in_order(events: Sequence[PublishedEvent]) -> None:
    last: dict[tuple[str, str], int] = {}
    for event in events:
        assert event.sequence_number == last.get(event.aggregate, 0) + 1, event
        last[event.aggregate] = event.sequence_number


def checkpoints_folder(server: ServerProcess) -> Path:
    return server.data / "objects" / "publisher"


def effects_of(events: Sequence[PublishedEvent], folder: Path) -> dict[str, int]:
    """How often a consumer that asks the registry first acts on each event."""
    acted: Counter[str] = Counter()
    database = open_database(f"sqlite:///{folder}/registry.db")
    try:
        upgrade(database, [MIGRATIONS])
        registry = SqlRegistry(database)
        handler = Handler("mail", effect=Effect.IDEMPOTENT)
        for event in events:
            claim = registry.claim(handler, event)
            if claim.outcome is ClaimOutcome.CLAIMED:
                acted[event.event_id] += 1
                registry.mark_done(claim)
    finally:
        database.close()
    return dict(acted)


def newest_checkpoint(server: ServerProcess) -> Checkpoint:
    newest = sorted(checkpoints_folder(server).glob("*.json"))[-1]
    return msgspec.json.decode(newest.read_bytes(), type=Checkpoint)

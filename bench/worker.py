"""A worker on Spark with an idempotent handler that does nothing, and its registry in PostgreSQL.

The time is from the start of the query to its last commit, on a topic whose events are all sealed: planning,
reading, decoding, a claim and a mark for each event, positions. In the first figure each aggregate's events
arrive in order. In the second they arrive in no order at all: most of them come before an event that they
have to wait for, and are parked.
"""

import os
import time
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec

from bench.harness.figure import Figure, at_least, below
from bench.projection import Bed, open_bed
from driftq.eventstore.published import PublishedEvent
from driftq.pipeline.worker.context import WorkerContext
from driftq.pipeline.worker.job import WorkerJob
from driftq.pipeline.worker.spec import WorkerSpec
from driftq.registry import Effect
from driftq.registry.sql_registry import MIGRATIONS
from driftq.sql import open_database, upgrade
from driftq.tables.reader import read_table
from driftq.transport.server import Server

EVENTS = int(os.environ.get("BENCH_WORKER_EVENTS", "200000"))
SHUFFLED = int(os.environ.get("BENCH_WORKER_SHUFFLED", "100000"))
EACH = 10
"""Events of an aggregate."""
PARTITIONS = 4
RUNS = 3
SENT_AT_ONCE = 5_000
WARM_UP = 20_000
RATE_MIN = 5_000
SHUFFLED_S_MAX = 60
SEALED_S = 600.0

Places = list[tuple[int, int]]
"""Aggregate and sequence of each event."""


def worker(events: int = EVENTS, shuffled: int = SHUFFLED) -> list[Figure]:
    """Events a second in order, and the seconds that shuffled ones take; the best of some runs counts."""
    with open_bed() as bed:
        upgrade_registry(bed)
        fill(bed, "events.warm", in_order(WARM_UP))
        handle(bed, "events.warm", "warm", WARM_UP)
        fill(bed, "events.ordered", in_order(events))
        took = min(handle(bed, "events.ordered", f"ordered-{run}", events) for run in range(RUNS))
        fill(bed, "events.shuffled", in_disorder(shuffled))
        waited = min(handle(bed, "events.shuffled", f"shuffled-{run}", shuffled) for run in range(RUNS))
    rate = events / took
    return [
        Figure(
            f"worker on Spark, idempotent no-op, PostgreSQL, {events:,} events",
            rate,
            "/s",
            at_least(RATE_MIN),
        ),
        Figure(f"… {shuffled:,} shuffled events", waited, "s", below(SHUFFLED_S_MAX)),
    ]


def do_nothing(event: PublishedEvent, context: WorkerContext) -> None:
    """The handler."""


def handle(bed: Bed, topic: str, name: str, events: int) -> float:
    """Seconds that a new handler takes for all events of the topic."""
    options = replace(bed.options, events=replace(bed.options.events, database_url=bed.postgres))
    spec = WorkerSpec(name=name, call=do_nothing, topics=(topic,), effect=Effect.IDEMPOTENT)
    job = WorkerJob(spec, options)
    began = time.perf_counter()
    job.start(bed.spark, once=True).awaitTermination()
    took = time.perf_counter() - began
    assert job.counts["done"] == events, job.counts
    return took


def upgrade_registry(bed: Bed) -> None:
    database = open_database(bed.postgres)
    upgrade(database, [MIGRATIONS])
    database.close()


def in_order(events: int) -> Places:
    """Mixed among aggregates, and in order within each."""
    random = Random(1)
    aggregates = list(range(events // EACH))
    places: Places = []
    for sequence in range(1, EACH + 1):
        random.shuffle(aggregates)
        places += [(aggregate, sequence) for aggregate in aggregates]
    return places


def in_disorder(events: int) -> Places:
    places = in_order(events)
    Random(2).shuffle(places)
    return places


def fill(bed: Bed, topic: str, places: Places) -> None:
    """Publish these events as they are given."""
    server = Server(f"http://127.0.0.1:{bed.server.port}")
    server.post("/v1/topics", {"name": topic, "partitions": PARTITIONS}, object)
    for start in range(0, len(places), SENT_AT_ONCE):
        messages = [_message(topic, *place) for place in places[start : start + SENT_AT_ONCE]]
        server.post("/v1/produce/batch", {"messages": messages}, object)
    server.post("/v1/seal", {}, object)
    server.close()
    _wait_until_sealed(bed.place / "data" / "tables" / topic, len(places))


def _wait_until_sealed(table: Path, events: int) -> None:
    """So that every run reads files, as most of a long topic is."""
    end = time.monotonic() + SEALED_S
    while (found := read_table(table)) is None or sum(file.rows for file in found.files) < events:
        if time.monotonic() > end:
            raise RuntimeError(f"{table.name} was not sealed in time")
        time.sleep(0.2)


def _message(topic: str, aggregate: int, sequence: int) -> dict[str, str]:
    name = f"aggregate-{aggregate:08}"
    event = {
        "event_id": f"{aggregate:012x}-{sequence:04x}",
        "aggregate_type": "bench",
        "aggregate_id": name,
        "sequence_number": sequence,
        "event_type": "Changed",
        "kind": "event",
        "operation": "update",
        "occurred_at": "2026-01-02T03:04:05.000006Z",
        "payload": {"at": sequence, "text": "x" * 150},
        "metadata": {},
        "schema_version": 1,
        "position": sequence,
    }
    return {"topic": topic, "key": name, "value": msgspec.json.encode(event).decode()}

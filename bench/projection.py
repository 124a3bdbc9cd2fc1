"""From a topic to a read model in PostgreSQL, with guard and registry, beside a bare fold of the same events.

The bare one is what anybody would write: `max_by` over a Parquet file, and the result thrown away. It has
no offsets, no fence, no registry, no dead letters and no target.

Ours is the time from the start of the query to its last commit, with `latest_state` on a topic whose events
are all sealed: planning, reading, folding, staging and merging in a transaction for each million events. How
much of that is the database's depends on how often aggregates change, so there are two figures. In the first
an aggregate has twenty events: most are overtaken within a batch, and reading and folding counts. In the
second it has two, in different batches: every event becomes a row, and what counts is how fast PostgreSQL
takes rows; the bare fold writes none.

PostgreSQL is set up as a server for bulk writes is: `BULK` in bench/postgres.py.

How the cost grows is measured with one, two and four million events on the same server.
"""

import json
import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness.figure import Figure, at_least, at_most
from bench.machine import Server, folder
from bench.postgres import postgres
from driftq.pipeline import Projection, open_session
from driftq.settings import load_settings
from driftq.sinks import PostgresSink
from driftq.tables.reader import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from driftq.model.options.pipeline import PipelineOptions

EVENTS = 2_000_000
GROWTH = (1_000_000, 2_000_000, 4_000_000)
AGGREGATES = 100_000
SHARE = 0.6
SHARE_OF_MANY = 0.3
"""Of the bare fold, where every event is a row."""
PARTITIONS = 4
RUNS = 3
SENT_AT_ONCE = 5_000
SEALED_S = 600.0
PAYLOAD = "x" * 150


@dataclass(frozen=True, slots=True)
class Services:
    """A server and PostgreSQL on this machine, and a folder on its disk."""

    place: Path
    server: Server
    postgres: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"


@dataclass(frozen=True, slots=True)
class Bed(Services):
    """The services, and Spark."""

    spark: "SparkSession"
    options: "PipelineOptions"


def projection(events: int = EVENTS) -> list[Figure]:
    """Topic → PostgreSQL against a bare fold, in turns; the best of some runs counts."""
    with open_bed() as bed:
        warm_up(bed)
        often = _beside_bare(bed, "bench", events, aggregates_of(events), events // 2, share=SHARE)
        once = _beside_bare(bed, "many", events, events // 2, events // 2, share=SHARE_OF_MANY)
    return [*often, *once]


def _beside_bare(
    bed: Bed, name: str, events: int, aggregates: int, batch: int, *, share: float
) -> list[Figure]:
    file = str(bed.place / f"{name}.parquet")
    fill(bed, f"events.{name}", events, aggregates=aggregates, copy_to=file)
    alone: list[float] = []
    ours: list[float] = []
    for run in range(RUNS):
        alone.append(bare(bed.spark, file))
        ours.append(project(bed, name, events, schema=f"run_{run}", batch_messages_max=batch))
    ratio = min(alone) / min(ours)
    return [
        Figure(f"bare max_by, {events:,} events of {aggregates:,} aggregates", events / min(alone), "/s"),
        Figure("topic → PostgreSQL read model, guard and registry", events / min(ours), "/s"),
        Figure("… as a part of the bare fold", ratio, "×", at_least(share)),
    ]


def growth(sizes: Sequence[int] = GROWTH) -> list[Figure]:
    """How the cost of a projection grows with its events."""
    took: list[float] = []
    with open_bed() as bed:
        warm_up(bed)
        for events in sizes:
            name = f"grown_{events}"
            fill(bed, f"events.{name}", events)
            took.append(project(bed, name, events))
    exponent = math.log(took[-1] / took[0]) / math.log(sizes[-1] / sizes[0])
    figures = [
        Figure(f"topic → PostgreSQL, {events:,} events", seconds, "s")
        for events, seconds in zip(sizes, took, strict=True)
    ]
    return [*figures, Figure("… grows with the exponent", exponent, "", at_most(1.1))]


@contextmanager
def open_services() -> Iterator[Services]:
    with postgres(bulk=True) as database, folder() as place:
        server = Server(place / "data")
        try:
            yield Services(place, server, database)
        finally:
            server.stop()


@contextmanager
def open_bed() -> Iterator[Bed]:
    with open_services() as services:
        options = load_settings().pipeline(url=services.url, data=str(services.place / "data"))
        spark = open_session(options, app_name="bench")
        yield Bed(services.place, services.server, services.postgres, spark, options)
        spark.stop()


def warm_up(bed: Bed) -> None:
    fill(bed, "events.warm", 20_000)
    project(bed, "warm", 20_000)


def project(
    bed: Bed, name: str, events: int, *, schema: str = "read_models", batch_messages_max: int | None = None
) -> float:
    """Seconds from the start of the query to the last commit; a fresh schema for a fresh read model."""
    sink = PostgresSink(bed.postgres, schema=schema)
    projection = Projection(name, topic=f"events.{name}", sink=sink, batch_messages_max=batch_messages_max)
    began = time.perf_counter()
    projection.run(bed.spark, options=bed.options, once=True)
    took = time.perf_counter() - began
    model = sink.connect(name)
    # The last sequence of an aggregate is also the number of its events.
    assert sum(row.last_sequence for row in model.registry()) == events
    model.close()
    return took


def bare(spark: "SparkSession", file: str) -> float:
    from pyspark.sql import functions as f

    began = time.perf_counter()
    newest = (
        spark.read.parquet(file)
        .groupBy("aggregate_type", "aggregate_id")
        .agg(f.max("sequence_number"), f.max_by("value", "sequence_number"))
    )
    newest.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def fill(
    services: Services, topic: str, events: int, *, aggregates: int | None = None, copy_to: str | None = None
) -> None:
    """Publish the events, in order within each aggregate and mixed among them, as a publisher would."""
    connection = HTTPConnection("127.0.0.1", services.server.port)
    _post(connection, "/v1/topics", json.dumps({"name": topic, "partitions": PARTITIONS}))
    writer: pq.ParquetWriter | None = None
    some: list[dict[str, object]] = []
    for event in bench_events(events, aggregates or aggregates_of(events)):
        some.append(event)
        if len(some) == SENT_AT_ONCE:
            values = [json.dumps(each) for each in some]
            messages = [
                {"topic": topic, "key": each["aggregate_id"], "value": value}
                for each, value in zip(some, values, strict=True)
            ]
            _post(connection, "/v1/produce/batch", json.dumps({"messages": messages}))
            if copy_to is not None:
                columns = ("aggregate_type", "aggregate_id", "sequence_number")
                table = pa.table(
                    {name: [each[name] for each in some] for name in columns} | {"value": values}
                )
                writer = writer or pq.ParquetWriter(copy_to, table.schema, compression="zstd")
                writer.write_table(table)
            some = []
    if writer is not None:
        writer.close()
    _post(connection, "/v1/seal", "{}")
    connection.close()
    _wait_until_sealed(services.place / "data" / "tables" / topic, events)


def _wait_until_sealed(table: Path, events: int) -> None:
    """So that every run reads files, as most of a long topic is."""
    end = time.monotonic() + SEALED_S
    while (found := read_table(table)) is None or sum(file.rows for file in found.files) < events:
        if time.monotonic() > end:
            raise RuntimeError(f"{table.name} was not sealed in time")
        time.sleep(0.2)


def aggregates_of(events: int) -> int:
    """How many rows these events come to."""
    return min(AGGREGATES, events // 2)


def bench_events(count: int, aggregates: int) -> Iterator[dict[str, object]]:
    """In order within each aggregate and mixed among them."""
    random = Random(1)
    order = list(range(aggregates))
    for sequence in range(1, count // aggregates + 1):
        random.shuffle(order)
        for position, which in enumerate(order, (sequence - 1) * aggregates + 1):
            yield {
                "event_id": f"{which:012x}-{sequence:04x}",
                "aggregate_type": "bench",
                "aggregate_id": f"aggregate-{which:08}",
                "sequence_number": sequence,
                "event_type": "Changed",
                "kind": "event",
                "operation": "update",
                "occurred_at": "2026-01-02T03:04:05.000006Z",
                "payload": {"at": sequence, "text": PAYLOAD},
                "metadata": {},
                "schema_version": 1,
                "position": position,
            }


def _post(connection: HTTPConnection, path: str, body: str) -> None:
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status in (200, 201), content[:500]

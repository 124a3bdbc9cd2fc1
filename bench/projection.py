"""From a topic to a read model in PostgreSQL, with guard and registry, beside a bare fold of the same events.

The bare one is what anybody would write: `max_by` over a Parquet file, and the result thrown away. It has
no offsets, no fence, no registry, no dead letters and no target.

Ours is the time from the start of the query to its last commit, with `latest_state` on a topic whose events
are all sealed: planning, reading, folding, COPY and upsert in a transaction for each million events. How much
of that is the database's depends on how often aggregates change, so there are two figures. In the first an
aggregate has twenty events: most are overtaken within a batch, and reading and folding counts. In the second
it has two, in different batches: every event becomes a row, and what counts is how fast the driver and
PostgreSQL take rows one by one; the bare fold writes none, so there is no aim.

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

from bench.machine import Server, folder
from bench.report import Figure
from driftq.pipeline import Projection, open_session
from driftq.settings import load_settings
from driftq.sinks import PostgresSink
from driftq.tables.reader import read_table
from tests.services_postgres import PostgresServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from driftq.model.options.pipeline import PipelineOptions

EVENTS = 2_000_000
GROWTH = (1_000_000, 2_000_000, 4_000_000)
AGGREGATES = 100_000
MANY_EVENTS = 1_000_000
"""Of half as many aggregates."""
PARTITIONS = 4
RUNS = 3
SENT_AT_ONCE = 5_000
SEALED_S = 600.0
PAYLOAD = "x" * 150


@dataclass(frozen=True, slots=True)
class Bed:
    """A server, PostgreSQL and Spark on this machine."""

    place: Path
    server: Server
    postgres: str
    spark: "SparkSession"
    options: "PipelineOptions"


def projection(events: int = EVENTS) -> list[Figure]:
    """Topic → PostgreSQL against a bare fold; the best of some runs counts."""
    with open_bed() as bed:
        file = str(bed.place / "events.parquet")
        fill(bed, "events.bench", events, copy_to=file)
        warm_up(bed)
        alone = events / min(bare(bed.spark, file) for _ in range(RUNS))
        ours = events / min(project(bed, "bench", events, schema=f"run_{run}") for run in range(RUNS))
        mostly_new = many_aggregates(bed, min(events, MANY_EVENTS))
    ratio = ours / alone
    return [
        Figure(f"bare max_by over {events:,} events in Parquet, no target", f"{alone:,.0f}/s"),
        Figure("topic → PostgreSQL read model, guard and registry", f"{ours:,.0f}/s"),
        Figure("… as a part of the bare fold", f"{ratio:.2f}×", "≥ 0.40×", ratio >= 0.4),
        *mostly_new,
    ]


def many_aggregates(bed: Bed, events: int) -> list[Figure]:
    """The same where every second event is of a new aggregate, in batches that each have all of them."""
    file = str(bed.place / "many.parquet")
    aggregates = events // 2
    fill(bed, "events.many", events, aggregates=aggregates, copy_to=file)
    alone = events / bare(bed.spark, file)
    ours = events / project(bed, "many", events, batch_messages_max=aggregates)
    return [
        Figure(f"bare max_by, {events:,} events of {aggregates:,} aggregates", f"{alone:,.0f}/s"),
        Figure("topic → PostgreSQL, every event a row", f"{ours:,.0f}/s"),
        Figure("… as a part of the bare fold", f"{ours / alone:.2f}×"),
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
        Figure(f"topic → PostgreSQL, {events:,} events", f"{seconds:.1f} s")
        for events, seconds in zip(sizes, took, strict=True)
    ]
    return [*figures, Figure("… grows with the exponent", f"{exponent:.2f}", "≤ 1.10", exponent <= 1.1)]


@contextmanager
def open_bed() -> Iterator[Bed]:
    database = PostgresServer(fsync=True)
    try:
        with folder() as place:
            server = Server(place / "data")
            try:
                url = f"http://127.0.0.1:{server.port}"
                options = load_settings().pipeline(url=url, data=str(place / "data"))
                spark = open_session(options, app_name="bench")
                yield Bed(place, server, database.url, spark, options)
                spark.stop()
            finally:
                server.stop()
    finally:
        database.remove()


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
    bed: Bed, topic: str, events: int, *, aggregates: int | None = None, copy_to: str | None = None
) -> None:
    """Publish the events, in order within each aggregate and mixed among them, as a publisher would."""
    connection = HTTPConnection("127.0.0.1", bed.server.port)
    _post(connection, "/v1/topics", json.dumps({"name": topic, "partitions": PARTITIONS}))
    writer: pq.ParquetWriter | None = None
    some: list[dict[str, object]] = []
    for event in _events(events, aggregates or aggregates_of(events)):
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
    _wait_until_sealed(bed.place / "data" / "tables" / topic, events)


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


def _events(count: int, aggregates: int) -> Iterator[dict[str, object]]:
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

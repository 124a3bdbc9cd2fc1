"""What an event costs between its append and its row: processor time, by stage and by system.

Event store, registry and read model are in PostgreSQL, topics on Kafka, and Spark runs in this process. The
same events pass through all stages, one stage after the other, so that a stage has the machine to itself. The
page docs/explanation/scale.md projects these figures.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import psutil
import psycopg

from bench.harness.figure import Figure
from bench.kafka_publish import KINDS, fill
from bench.machine import Server, folder
from bench.postgres import postgres
from bench.worker import do_nothing
from driftq.model.options.pipeline import KAFKA, PipelineOptions
from driftq.pipeline import Projection, open_session
from driftq.pipeline.publisher.job import Publisher
from driftq.pipeline.worker.job import WorkerJob
from driftq.pipeline.worker.spec import WorkerSpec
from driftq.registry import Effect
from driftq.settings import load_settings
from driftq.sinks import PostgresSink
from tests.services_kafka import KafkaServer, connector_jars

EVENTS = int(os.environ.get("BENCH_STAGES_EVENTS", "1000000"))
SYSTEMS = ("server", "PostgreSQL", "Kafka", "Spark")
TOPICS = tuple(f"events.{kind}" for kind in KINDS)


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one stage: events a second, and processor time for one event by system, in microseconds."""

    stage: str
    rate: float
    spent_us: dict[str, float]


def stages(events: int = EVENTS) -> list[Figure]:
    """One run over the same events."""
    costs, sizes = _measure(events)
    figures = []
    for cost in costs:
        spent = ", ".join(f"{system} {us:.0f}" for system, us in cost.spent_us.items() if us >= 0.5)
        figures.append(Figure(f"{cost.stage}, {events:,} events", cost.rate, "/s"))
        name = f"{cost.stage}: processor time of an event ({spent})"
        figures.append(Figure(name, sum(cost.spent_us.values()), "µs"))
    return figures + [Figure(f"bytes of an event: {name}", size, "B") for name, size in sizes.items()]


def _measure(events: int) -> tuple[list[Cost], dict[str, float]]:
    import pyspark

    costs: list[Cost] = []
    cluster = KafkaServer()
    try:
        with postgres(bulk=True) as database, folder() as place:
            _upgrade(database)
            server = Server(place / "data", environment={"DRIFTQ_DATABASE_URL": database})
            try:
                with _stage("append and seal", events, costs):
                    fill(server.port, events)
                stored = _size(database)
                options = _options(database, server.port, str(place / "data"))
                jars = ",".join(map(str, connector_jars(pyspark.__version__)))
                options = replace(options, kafka=replace(cluster.options, spark_jars=jars))
                spark = open_session(options, app_name="bench", reads_kafka=True)
                with _stage("publish to Kafka", events, costs):
                    Publisher(options).start(spark, once=True).awaitTermination()
                with _stage("project from Kafka to PostgreSQL", events, costs):
                    model = Projection("sized", topics=TOPICS, sink=PostgresSink(database))
                    model.run(spark, options=options, once=True)
                projected = _size(database)
                with _stage("handle, from Kafka, registry in PostgreSQL", events, costs):
                    _handle(options, spark, events)
                handled = _size(database)
                segments = sum(
                    file.stat().st_size for file in (place / "data" / "objects").rglob("*.parquet")
                )
                spark.stop()
            finally:
                server.stop()
    finally:
        cluster.remove()
    return costs, {
        "rows of the event store": stored / events,
        "segments of the event log": segments / events,
        "rows of the registry": (handled - projected) / events,
    }


def _options(database: str, port: int, data: str) -> PipelineOptions:
    options = load_settings().pipeline(url=f"http://127.0.0.1:{port}", data=data)
    return replace(options, transport=KAFKA, events=replace(options.events, database_url=database))


def _handle(options: PipelineOptions, spark: object, events: int) -> None:
    spec = WorkerSpec(name="sized", call=do_nothing, topics=TOPICS, effect=Effect.IDEMPOTENT)
    job = WorkerJob(spec, options)
    job.start(spark, once=True).awaitTermination()  # type: ignore[arg-type]
    assert job.counts["done"] == events, job.counts


def _upgrade(url: str) -> None:
    command = [sys.executable, "-m", "driftq", "db", "upgrade"]
    subprocess.run(command, env=os.environ | {"DRIFTQ_DATABASE_URL": url}, check=True, capture_output=True)


def _size(database: str) -> int:
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    assert found is not None
    return int(found[0])


@contextmanager
def _stage(name: str, events: int, costs: list[Cost]) -> Iterator[None]:
    before, began = _spent(), time.perf_counter()
    yield
    took, after = time.perf_counter() - began, _spent()
    spent = {system: (after[system] - before[system]) / events * 1e6 for system in SYSTEMS}
    costs.append(Cost(name, events / took, spent))


def _spent() -> dict[str, float]:
    """Seconds of processor time so far, by system; that of processes which ended is with their parents."""
    spent = dict.fromkeys(SYSTEMS, 0.0)
    here = psutil.Process()
    for process in [here, *here.children(recursive=True)]:
        try:
            times, system = process.cpu_times(), _system_of(process)
        except psutil.Error:
            continue
        spent[system] += times.user + times.system
        if process != here:
            spent[system] += times.children_user + times.children_system
    return spent


def _system_of(process: psutil.Process) -> str:
    name, words = process.name(), process.cmdline()
    marks: dict[str, Callable[[], bool]] = {
        "PostgreSQL": lambda: name.startswith("postgres"),
        "Kafka": lambda: "kafka.Kafka" in words,
        "server": lambda: "serve" in words or any("housekeep" in word for word in words),
    }
    return next((system for system, matches in marks.items() if matches()), "Spark")

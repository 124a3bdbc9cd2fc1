"""How long an event takes from its append to its row in a read model, with the pipeline running.

Publisher and projection run on one Spark session of this machine, as `driftq pipeline run publisher
projection` runs them. One event is appended at a time, at random moments, each of a new aggregate; a reader
asks PostgreSQL for its row until it is there. The time is from the answer to the append to the row.
"""

import random
import statistics
import time
from http.client import HTTPConnection

from bench.harness.figure import Figure, at_most
from bench.kafka_publish import ask
from bench.projection import Bed, open_bed
from driftq.model import Aggregate
from driftq.pipeline import Projection
from driftq.pipeline.publisher.job import Publisher
from driftq.sinks import PostgresSink, ReadModel

EVENTS = 200
WARM_UP = 10
KIND = "fresh"
APART_S = 1.0
VISIBLE_S = 120.0
LOOK_S = 0.002


def freshness(events: int = EVENTS) -> list[Figure]:
    """The median and the 99th of some hundred events."""
    with open_bed() as bed:
        took = _measure(bed, events)
    p50, p99 = statistics.median(took), statistics.quantiles(took, n=100)[98]
    return [
        Figure(f"append → row visible in PostgreSQL, {events} events, p50", p50, "ms", at_most(800)),
        Figure("… p99", p99, "ms"),
        Figure("… longest", max(took), "ms"),
    ]


def _measure(bed: Bed, events: int) -> list[float]:
    sink = PostgresSink(bed.postgres)
    connection = HTTPConnection("127.0.0.1", bed.server.port)
    ask(connection, "POST", "/v1/topics", {"name": f"events.{KIND}", "partitions": 4})
    publisher = Publisher(bed.options).start(bed.spark, once=False)
    job = Projection(KIND, topic=f"events.{KIND}", sink=sink).job(bed.options)
    projection = job.start(bed.spark, once=False)
    model = sink.connect(KIND)
    try:
        took = [_visible_after(connection, model, number) for number in range(WARM_UP + events)]
    finally:
        projection.stop()
        publisher.stop()
        job.close()
        model.close()
        connection.close()
    return took[WARM_UP:]


def _visible_after(connection: HTTPConnection, model: ReadModel, number: int) -> float:
    """Milliseconds until the row of a new event is there."""
    name = f"a{number}"
    event = {
        "event_id": f"fresh-{number}",
        "aggregate_type": KIND,
        "aggregate_id": name,
        "event_type": "Changed",
        "kind": "event",
        "operation": "create",
        "payload": {"at": number},
    }
    ask(connection, "POST", "/v1/events", event)
    began = time.perf_counter()
    while not model.current([Aggregate(KIND, name)]):
        if time.perf_counter() - began > VISIBLE_S:
            raise RuntimeError(f"no row of {name} after {VISIBLE_S:.0f} s")
        time.sleep(LOOK_S)
    took = (time.perf_counter() - began) * 1_000
    time.sleep(random.random() * APART_S)
    return took

"""`python -m bench [NAME …]`: run the named benchmarks, or all, show one table and write JSON."""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from bench import (
    broker,
    client,
    delta_sink,
    driver_memory,
    eventstore,
    freshness,
    housekeeping,
    jobs,
    kafka_projection,
    kafka_publish,
    keys,
    opensearch_sink,
    overhead,
    projection,
    publish,
    redis_sink,
    registry,
    row_sinks,
    spark_source,
    stages,
    stream_peers,
    worker,
)
from bench.beside import (
    batches,
    end_to_end,
    enqueue,
    events,
    fixed_rate,
    jobs_peers,
    scrape,
    singles,
    streams,
)
from bench.beside.claims import claims_by_threads
from bench.harness.about import about
from bench.harness.figure import Figure
from bench.harness.plan import plan
from bench.machine import kept_back, processor_times
from bench.report import show, with_full_names, write_json

BENCHMARKS = {
    "singles": singles.singles,
    "batches": batches.batches,
    "end-to-end": end_to_end.end_to_end,
    "streams": streams.streams,
    "fixed-rate": fixed_rate.fixed_rate,
    "scrape": scrape.scrape,
    "events": events.events,
    "claims-threads": claims_by_threads,
    "enqueue": enqueue.enqueue,
    "core": broker.core,
    "memory": broker.memory,
    "keys": keys.keys,
    "restart": housekeeping.restart,
    "idle": housekeeping.idle,
    "restart-large": housekeeping.restart_large,
    "housekeeping": housekeeping.latency,
    "tables": housekeeping.tables,
    "claims": registry.claims,
    "appends": eventstore.appends,
    "lengths": eventstore.lengths,
    "client": client.throughput,
    "calls": client.calls,
    "jobs": jobs.no_op,
    "jobs-peers": jobs_peers.beside_others,
    "projection": projection.projection,
    "projection-growth": projection.growth,
    "projection-kafka": kafka_projection.kafka_projection,
    "projection-memory": driver_memory.driver_memory,
    "sink-delta": delta_sink.delta_sink,
    "sink-postgres": row_sinks.postgres_sink,
    "sink-sqlite": row_sinks.sqlite_sink,
    "sink-parquet": row_sinks.parquet_sink,
    "sink-opensearch": opensearch_sink.opensearch_sink,
    "publish": publish.publish,
    "spark-source": spark_source.spark_source,
    "stream-peers": stream_peers.beside_others,
    "worker": worker.worker,
    "publish-kafka": kafka_publish.kafka_publish,
    "freshness": freshness.freshness,
    "stages": stages.stages,
    "sink-redis": redis_sink.redis_sink,
    "overhead": overhead.overhead,
}


QUICK = (
    "singles",
    "batches",
    "end-to-end",
    "streams",
    "fixed-rate",
    "scrape",
    "events",
    "claims-threads",
    "enqueue",
    "jobs-peers",
    "restart",
    "idle",
)
"""What has a quick form; the others take their time, or need Spark."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHMARKS)}")
    parser.add_argument("--json", type=Path, help="write every figure into this file as well")
    given = parser.parse_args()
    unknown = [name for name in given.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    figures: list[Figure] = []
    for name in given.names or (QUICK if plan().quick else BENCHMARKS):
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        before = processor_times()
        found = BENCHMARKS[name]()
        share = kept_back(before)
        for one in with_full_names(found):
            steal = share if one.steal is None else one.steal
            figures.append(replace(one, benchmark=name, steal=steal))
    show(figures)
    if given.json:
        write_json(given.json, figures, about())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

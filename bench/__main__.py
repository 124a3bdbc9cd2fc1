"""`python -m bench [NAME …]`: run the named benchmarks, or all, and show one table."""

import sys

from bench import (
    broker,
    client,
    delta_sink,
    driver_memory,
    eventstore,
    freshness,
    housekeeping,
    jobs,
    jobs_peers,
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
from bench.machine import kept_back, processor_times
from bench.report import Figure, show

DISTURBED = 0.01
"""From this share on the host is said to have been busy with something else."""

BENCHMARKS = {
    "singles": broker.singles,
    "batches": broker.batches,
    "core": broker.core,
    "memory": broker.memory,
    "keys": keys.keys,
    "restart": housekeeping.restart,
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


def main() -> int:
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    figures: list[Figure] = []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        before = processor_times()
        figures += BENCHMARKS[name]()
        share = kept_back(before)
        if share >= DISTURBED:
            figures.append(Figure(f"… processor time that the host kept back ({name})", f"{share:.0%}"))
    show(figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

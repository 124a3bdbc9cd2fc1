"""Rows into Redis by Spark's tasks: our read model, beside redis-py's own pipelines of the same rows.

Both read the same Parquet file in the same Spark session and write one hash for each row. The pipelines send
plain HSETs, a thousand at once, without a guard, an index, a fence or positions. Ours is the whole batch:
opening it, the tasks' scripts, and the commit. Each run writes to keys that do not exist yet.

The server keeps everything in memory, so that its disk does not count.
"""

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness.figure import Figure, at_least
from bench.machine import folder
from driftq.pipeline import open_session
from driftq.pipeline.projection.staged.batch import run_tasks
from driftq.pipeline.projection.staged.tasks import WriteRows
from driftq.settings import load_settings
from driftq.sinks import StagedCommit, TopicPartition
from driftq.sinks.arrow_rows import CHANGES
from driftq.sinks.redis import RedisSink
from tests.services_redis import RedisServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 500_000
RUNS = 3
SHARE = 0.6
SENT_AT_ONCE = 1_000
PARTS = 4
PAYLOAD = "x" * 150

_numbers = itertools.count()


def redis_sink(rows: int = ROWS) -> list[Figure]:
    """Read model in Redis against plain pipelines, in turns; the best of some runs counts."""
    alone: list[float] = []
    ours: list[float] = []
    server = RedisServer()
    try:
        with folder() as place:
            file = write_rows(place, rows)
            spark = open_session(load_settings().pipeline(data=str(place / "data")), app_name="bench")
            try:
                for _ in range(RUNS + 1):  # The first one warms up.
                    for write, took in ((bulk, alone), (project, ours)):
                        with server.client() as client:
                            client.flushall()
                        took.append(write(spark, file, server.url))
                        with server.client() as client:
                            assert client.dbsize() >= rows
            finally:
                spark.stop()
    finally:
        server.remove()
    ratio = min(alone[1:]) / min(ours[1:])
    return [
        Figure(f"redis-py's pipelined HSET, {rows:,} rows", rows / min(alone[1:]), "/s"),
        Figure("read model in Redis, by Spark's tasks", rows / min(ours[1:]), "/s"),
        Figure("… as a part of the pipelines", ratio, "×", at_least(SHARE)),
    ]


def write_rows(place: Path, rows: int) -> str:
    """A folder of Parquet files, one for each task."""
    for part in range(PARTS):
        numbers = range(part, rows, PARTS)
        table = pa.table(
            {
                "aggregate_type": ["order"] * len(numbers),
                "aggregate_id": [f"o-{number:08}" for number in numbers],
                "sequence_number": [1 + number % 7 for number in numbers],
                "event_id": [f"event-{number:012}" for number in numbers],
                "state": [f'{{"number":{number},"note":"{PAYLOAD}"}}' for number in numbers],
            },
            schema=CHANGES,
        )
        (place / "rows").mkdir(exist_ok=True)
        pq.write_table(table, place / "rows" / f"{part}.parquet")
    return str(place / "rows")


def project(spark: "SparkSession", file: str, url: str) -> float:
    sink = RedisSink(url, prefix=f"bench{next(_numbers)}")
    model = sink.connect("orders")
    epoch = model.take_over()
    began = time.perf_counter()
    batch = model.open_batch(epoch)
    part = run_tasks(_rows(spark, file), WriteRows(batch.writer), address=model.address)
    batch.commit(StagedCommit(reports=part.attempts, positions={TopicPartition("events.order", 0): 1}))
    took = time.perf_counter() - began
    model.close()
    return took


def bulk(spark: "SparkSession", file: str, url: str) -> float:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import redis

        with redis.Redis.from_url(url) as client:
            for batch in batches:
                rows = batch.to_pylist()
                for first in range(0, len(rows), SENT_AT_ONCE):
                    pipeline = client.pipeline(transaction=False)
                    for row in rows[first : first + SENT_AT_ONCE]:
                        document = {"s": row["sequence_number"], "e": row["event_id"], "d": row["state"]}
                        pipeline.hset(f"bulk:{row['aggregate_type']}:{row['aggregate_id']}", mapping=document)
                    pipeline.execute()
        yield from ()

    began = time.perf_counter()
    _rows(spark, file).mapInArrow(write, "done int").collect()
    return time.perf_counter() - began


def _rows(spark: "SparkSession", file: str) -> "DataFrame":
    return spark.read.parquet(file)

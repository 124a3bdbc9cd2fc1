"""Rows into OpenSearch from Spark's tasks, beside the bulk helpers of opensearch-py with the same rows.

Ours reads the rows from a Parquet file in Spark's tasks, writes each with its sequence as the external
version, and ends with the commit that moves the position. The helpers get the rows as a list in memory, write
them to a plain index without versions, and keep nothing beside it; the faster of `bulk` and `parallel_bulk`
counts. Both indexes have one shard, no replica and the same rows, and the server keeps its files on disk.
"""

import json
import pickle
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness.figure import Figure, at_least
from bench.machine import folder
from driftq.pipeline import open_session
from driftq.settings import load_settings
from driftq.sinks import StagedCommit, TaskWriter, TopicPartition
from driftq.sinks.arrow_rows import CHANGES
from driftq.sinks.opensearch import OpenSearchSink
from tests.services_opensearch import OPENSEARCH_2, SearchServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 200_000
RUNS = 3
FILES = 4
SHARE = 0.6
NAME = "bench"


def opensearch_sink(rows: int = ROWS) -> list[Figure]:
    """In turns; the best of some runs counts."""
    server = SearchServer(OPENSEARCH_2, java_options="", on_disk=True)
    try:
        with folder() as place:
            return _measure(server.url, place, rows)
    finally:
        server.remove()


def _measure(url: str, place: Path, rows: int) -> list[Figure]:
    table = _rows(rows)
    _write_files(table, place / "rows")
    documents = [row | {"deleted": False, "state": json.loads(row["state"])} for row in table.to_pylist()]
    spark = open_session(load_settings().pipeline(data=str(place)), app_name="bench")
    try:
        _ours(spark, url, place / "rows", rows)  # Starts the Python workers, and warms up the server.
        helpers: list[float] = []
        ours: list[float] = []
        for _ in range(RUNS):
            helpers.append(min(_helper(url, documents, parallel=parallel) for parallel in (False, True)))
            ours.append(_ours(spark, url, place / "rows", rows))
    finally:
        spark.stop()
    ratio = min(helpers) / min(ours)
    return [
        Figure(f"opensearch-py's bulk helpers, {rows:,} rows without versions", rows / min(helpers), "/s"),
        Figure("Spark tasks → OpenSearch, external versions and commit", rows / min(ours), "/s"),
        Figure("… as a part of the helpers", ratio, "×", at_least(SHARE)),
    ]


def _rows(count: int) -> pa.Table:
    """One of each aggregate, with a state of about 200 bytes."""
    return pa.table(
        {
            "aggregate_type": ["order"] * count,
            "aggregate_id": [f"order-{at:09}" for at in range(count)],
            "sequence_number": [1 + at % 50 for at in range(count)],
            "event_id": [str(uuid.UUID(int=at)) for at in range(count)],
            "state": [
                json.dumps(
                    {"status": "placed", "total": at % 997, "customer": f"c-{at % 9973}", "note": "x" * 120}
                )
                for at in range(count)
            ],
        },
        schema=CHANGES,
    )


def _write_files(table: pa.Table, place: Path) -> None:
    place.mkdir()
    size = -(-table.num_rows // FILES)
    for at in range(FILES):
        pq.write_table(table.slice(at * size, size), place / f"{at}.parquet")


def _helper(url: str, documents: list[dict[str, Any]], *, parallel: bool) -> float:
    from opensearchpy import OpenSearch, helpers

    client = OpenSearch([url], timeout=60)
    index = f"plain-{uuid.uuid4().hex}"
    client.indices.create(index=index, body={"settings": {"number_of_shards": 1, "number_of_replicas": 0}})
    actions = (
        {"_index": index, "_id": f"order/{document['aggregate_id']}", "_source": document}
        for document in documents
    )
    began = time.perf_counter()
    if parallel:
        for _ in helpers.parallel_bulk(client, actions, thread_count=2, chunk_size=1_000):
            pass
    else:
        helpers.bulk(client, actions, chunk_size=1_000)
    took = time.perf_counter() - began
    client.indices.refresh(index=index)
    assert client.count(index=index)["count"] == len(documents)
    client.indices.delete(index=index)
    client.close()
    return took


def _ours(spark: "SparkSession", url: str, files: Path, rows: int) -> float:
    sink = OpenSearchSink(url, prefix=f"b{uuid.uuid4().hex}", replicas=0)
    model = sink.connect(NAME)
    writer_epoch = model.take_over()
    began = time.perf_counter()
    staged = model.open_batch(writer_epoch)
    reported = spark.read.parquet(str(files)).mapInArrow(_writing(staged.writer), "report binary").collect()
    reports = [pickle.loads(row.report) for row in reported]
    staged.commit(StagedCommit(reports=reports, positions={TopicPartition("events.bench", 0): rows}))
    took = time.perf_counter() - began
    assert sum(1 for _ in model.registry()) == rows
    model.close()
    return took


def _writing(writer: TaskWriter) -> Any:
    """What each task runs on its rows."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        attempt = writer.begin(task=context.partitionId(), attempt=context.taskAttemptId())
        try:
            for batch in batches:
                attempt.write_changes(pa.Table.from_batches([batch]))
            report = attempt.finish()
        finally:
            attempt.close()
        yield pa.RecordBatch.from_pydict({"report": [pickle.dumps(report)]})

    return write

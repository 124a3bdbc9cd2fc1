"""Rows into PostgreSQL, SQLite and Parquet: our read models, beside each system's own bulk writer.

In PostgreSQL and Parquet both sides run in Spark's tasks, on the same files in the same session. Ours is the
whole batch: opening it, the tasks' writes, and the commit with guard and positions. The other side copies
straight into a plain table with the same key, or writes plain files: no guard, no fence, no positions. For
SQLite both get the rows as a list in memory; the other side is one `executemany` in one transaction.

PostgreSQL syncs every commit, SQLite too, and Parquet files are synced by both sides.
"""

import itertools
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from bench.harness.figure import Figure, at_least
from bench.machine import folder
from bench.postgres import postgres
from bench.redis_sink import write_rows
from driftq.pipeline import open_session
from driftq.pipeline.projection.staged.batch import run_tasks
from driftq.pipeline.projection.staged.tasks import WriteRows
from driftq.settings import load_settings
from driftq.sinks import (
    Application,
    Change,
    ParquetSink,
    PostgresSink,
    SqliteSink,
    StagedCommit,
    StagedReadModel,
    TopicPartition,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = 500_000
RUNS = 3
SHARE = 0.6
PLACE = TopicPartition("events.order", 0, "driftq/bench/1")
_COLUMNS = "aggregate_type, aggregate_id, sequence_number, event_id, state"
_POSTGRES_TABLE = """
    aggregate_type text COLLATE "C" NOT NULL, aggregate_id text COLLATE "C" NOT NULL,
    sequence_number bigint NOT NULL, event_id text NOT NULL, state json,
    PRIMARY KEY (aggregate_id, aggregate_type)
"""
_SQLITE_TABLE = _POSTGRES_TABLE.replace('COLLATE "C"', "")
_numbers = itertools.count()


def postgres_sink(rows: int = ROWS) -> list[Figure]:
    """Read model in PostgreSQL against COPY by psycopg, in turns; the best of some runs counts."""
    with postgres(bulk=True) as url, folder() as place, _spark(place) as spark:
        files = write_rows(place, rows)

        def ours() -> float:
            return _stage(
                spark, files, PostgresSink(url, schema=f"ours_{next(_numbers)}").connect("orders"), rows
            )

        def plain() -> float:
            return _copy(spark, files, url, rows)

        return _figures("PostgreSQL", f"psycopg's COPY, {rows:,} rows", rows, plain, ours)


def parquet_sink(rows: int = ROWS) -> list[Figure]:
    """Read model in Parquet against pyarrow's writer, in turns."""
    with folder() as place, _spark(place) as spark:
        files = write_rows(place, rows)

        def ours() -> float:
            target = place / f"ours-{next(_numbers)}"
            return _stage(spark, files, ParquetSink(str(target)).connect("orders"), rows)

        def plain() -> float:
            return _write_files(spark, files, place / f"plain-{next(_numbers)}", rows)

        return _figures("Parquet", f"pyarrow's write_table, {rows:,} rows", rows, plain, ours)


def sqlite_sink(rows: int = ROWS) -> list[Figure]:
    """Read model in SQLite against executemany, in turns."""
    with folder() as place:
        table = pq.read_table(write_rows(place, rows))
        changes = [
            Change(*row) for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
        ]

        def ours() -> float:
            return _apply(place / f"ours-{next(_numbers)}.db", changes)

        def plain() -> float:
            return _execute_many(place / f"plain-{next(_numbers)}.db", changes)

        return _figures("SQLite", f"sqlite3's executemany, {rows:,} rows", rows, plain, ours)


def _figures(
    target: str, client: str, rows: int, plain: Callable[[], float], ours: Callable[[], float]
) -> list[Figure]:
    measured = [(plain(), ours()) for _ in range(RUNS + 1)][1:]  # The first one warms up.
    alone, model = (min(times) for times in zip(*measured, strict=True))
    ratio = alone / model
    return [
        Figure(client, rows / alone, "/s"),
        Figure(f"read model in {target}", rows / model, "/s"),
        Figure("… as a part of the former", ratio, "×", at_least(SHARE)),
    ]


@contextmanager
def _spark(place: Path) -> Iterator["SparkSession"]:
    session = open_session(load_settings().pipeline(data=str(place / "data")), app_name="bench")
    try:
        yield session
    finally:
        session.stop()


def _stage(spark: "SparkSession", files: str, model: StagedReadModel, rows: int) -> float:
    epoch = model.take_over()
    began = time.perf_counter()
    batch = model.open_batch(epoch)
    part = run_tasks(spark.read.parquet(files), WriteRows(batch.writer), address=model.address)
    batch.commit(StagedCommit(reports=part.attempts, positions={PLACE: 1}))
    took = time.perf_counter() - began
    assert sum(1 for _ in model.registry()) == rows
    model.close()
    return took


def _copy(spark: "SparkSession", files: str, url: str, rows: int) -> float:
    table = f"plain_{next(_numbers)}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {table} ({_POSTGRES_TABLE})")

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with (
            psycopg.connect(url) as connection,
            connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({_COLUMNS}) FROM STDIN") as copy,
        ):
            for batch in batches:
                for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    copy.write_row(row)
        yield from ()

    took = _run(spark, files, write)
    with psycopg.connect(url, autocommit=True) as connection:
        [found] = connection.execute(f"SELECT count(*) FROM {table}").fetchone() or ()
        connection.execute(f"DROP TABLE {table}")
    assert found == rows
    return took


def _write_files(spark: "SparkSession", files: str, target: Path, rows: int) -> float:
    target.mkdir()

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with (target / f"{uuid.uuid4().hex}.parquet").open("xb") as file:
            pq.write_table(pa.Table.from_batches(list(batches)), file, compression="zstd")
            file.flush()
            os.fsync(file.fileno())
        yield from ()

    took = _run(spark, files, write)
    assert pq.read_table(target, columns=["event_id"]).num_rows == rows
    return took


def _run(spark: "SparkSession", files: str, write: Any) -> float:
    began = time.perf_counter()
    spark.read.parquet(files).mapInArrow(write, "done int").collect()
    return time.perf_counter() - began


def _apply(file: Path, changes: list[Change]) -> float:
    model = SqliteSink(str(file)).connect("orders")
    epoch = model.take_over()
    began = time.perf_counter()
    model.apply(Application(changes=changes, positions={PLACE: 1}), epoch)
    took = time.perf_counter() - began
    assert sum(1 for _ in model.registry()) == len(changes)
    model.close()
    return took


def _execute_many(file: Path, changes: list[Change]) -> float:
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"CREATE TABLE plain ({_SQLITE_TABLE}) WITHOUT ROWID")
    began = time.perf_counter()
    with connection:
        connection.executemany(f"INSERT OR REPLACE INTO plain ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)", changes)
    took = time.perf_counter() - began
    connection.close()
    return took

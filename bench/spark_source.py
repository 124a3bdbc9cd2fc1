"""A topic read by Spark through `format("driftq")`, beside Spark's own reader on the same sealed files."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness.figure import Figure, at_least
from bench.machine import Server, folder
from driftq.pipeline import open_session
from driftq.settings import load_settings
from driftq.tables.reader import read_table, table_files
from driftq.transport.server import Server as Calls

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MESSAGES = 2_000_000
PARTITIONS = 4
TOPIC = "events.bench"
RUNS = 3
SHARE = 0.6
"""Of what Spark's own reader does."""
_AT_ONCE = 5_000
_SEALED_S = 600.0


def spark_source(messages: int = MESSAGES) -> list[Figure]:
    """Both read every column of every row and throw it away; the best of some runs counts."""
    with folder() as data:
        running = Server(data)
        try:
            url = f"http://127.0.0.1:{running.port}"
            fill(url, data, messages)
            return measure(url, data, messages)
        finally:
            running.stop()


def fill(url: str, data: Path, messages: int) -> None:
    """So many events of about 200 bytes, all of them sealed."""
    calls = Calls(url, answer_s=_SEALED_S)
    calls.post("/v1/topics", {"name": TOPIC, "partitions": PARTITIONS, "table": True}, object)
    for first in range(0, messages, _AT_ONCE):
        batch = [
            {"topic": TOPIC, "key": f"o-{number % 100_000}", "value": an_event(number)}
            for number in range(first, min(first + _AT_ONCE, messages))
        ]
        calls.post("/v1/produce/batch", {"messages": batch}, object)
    calls.post("/v1/seal", {}, object)
    calls.close()
    end = time.monotonic() + _SEALED_S
    while sealed_rows(data) < messages:
        if time.monotonic() > end:
            raise RuntimeError(f"{sealed_rows(data):,} of {messages:,} messages are sealed")
        time.sleep(0.2)


def an_event(number: int) -> str:
    return json.dumps(
        {
            "event_id": f"00000000-0000-4000-8000-{number:012d}",
            "aggregate_type": "order",
            "aggregate_id": f"o-{number % 100_000}",
            "sequence_number": 1 + number // 100_000,
            "payload": {"total": number % 977, "city": "Lyon"},
        }
    )


def sealed_rows(data: Path) -> int:
    manifest = read_table(str(data / "tables" / TOPIC))
    return sum(file.rows for file in manifest.files) if manifest else 0


def measure(url: str, data: Path, messages: int) -> list[Figure]:
    spark = open_session(load_settings().pipeline(url=url, data=str(data)), app_name="bench")
    try:
        ours = spark.read.format("driftq").option("url", url).option("data", str(data))
        remote = spark.read.format("driftq").option("url", url).option("data", "/nowhere")
        ways: dict[str, Callable[[], DataFrame]] = {
            "native": lambda: spark.read.parquet(*table_files(str(data / "tables" / TOPIC))),
            "files": lambda: ours.option("subscribe", TOPIC).load(),
            "http": lambda: remote.option("subscribe", TOPIC).load(),
        }
        best = dict.fromkeys(ways, 0.0)
        for _ in range(RUNS):
            for name, load in ways.items():
                began = time.perf_counter()
                load().write.format("noop").mode("overwrite").save()
                best[name] = max(best[name], messages / (time.perf_counter() - began))
    finally:
        spark.stop()
    share = best["files"] / best["native"]
    return [
        Figure(f"Spark reads {messages:,} sealed events by itself", best["native"], "rows/s"),
        Figure(
            "the same through the source",
            best["files"],
            "rows/s",
            ratio_to="Spark by itself",
            ratio=share,
            ratio_aim=at_least(SHARE),
        ),
        Figure("the same over HTTP alone", best["http"], "rows/s"),
    ]

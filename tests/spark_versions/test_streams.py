"""Streams: limits, AvailableNow, and a driver that is killed and started again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from driftq.pipeline.runtime.processes import end_session
from driftq.pipeline.source.lag import messages_behind
from driftq.pipeline.spark.compat import ENDS_AFTER_ONE_BATCH
from tests.harness import ServerProcess
from tests.spark.topics import create, fill
from tests.spark.waiting import QUERY_S, run_to_end, wait_until
from tests.spark_versions.copying import BATCH_MESSAGES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT = Path(__file__).parents[2]
Batches = list[tuple[int, list[int]]]


def into(batches: Batches) -> Any:
    def take(rows: DataFrame, batch_id: int) -> None:
        found = sorted(int(row.event_id[1:]) for row in rows.select("event_id").collect())
        batches.append((batch_id, found))

    return take


@pytest.mark.clause("Z7", "Z2")
def test_a_limited_stream_with_available_now_reads_everything_in_small_batches(
    spark: SparkSession, server: ServerProcess, url: str, tmp_path: Path
) -> None:
    create(server, "limited")
    fill(server, "limited", 70)
    reading = spark.readStream.format("driftq").options(
        url=url, subscribe="limited", maxOffsetsPerTrigger="30", reader="smoke"
    )
    batches: Batches = []
    writing = reading.load().writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    lags: list[int | None] = []
    while not lags or lags[-1]:
        query = run_to_end(writing.foreachBatch(into(batches)).trigger(availableNow=True).start)
        lags.append(messages_behind(query.recentProgress[-1]))
    assert [(number, len(found)) for number, found in batches] == [(0, 30), (1, 30), (2, 10)]
    assert sorted(one for _, found in batches for one in found) == list(range(70))
    assert lags == ([40, 10, 0] if ENDS_AFTER_ONE_BATCH else [0])
    assert {one["reader"] for one in server.client().get("/v1/topics/limited").body["readers"]} == {"smoke"}


@pytest.mark.clause("Z7", "Z2")
def test_a_stream_that_goes_on_keeps_its_limit_and_sees_what_arrives(
    spark: SparkSession, server: ServerProcess, url: str, tmp_path: Path
) -> None:
    create(server, "going-on", partitions=2)
    fill(server, "going-on", 25)
    reading = spark.readStream.format("driftq").options(
        url=url, subscribe="going-on", maxOffsetsPerTrigger="10"
    )
    batches: Batches = []
    writing = reading.load().writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))

    def seen() -> int:
        if query.exception() is not None:
            raise AssertionError(query.exception())
        return sum(len(found) for _, found in batches)

    query = writing.foreachBatch(into(batches)).start()
    try:
        wait_until(lambda: seen() == 25, "what was there", within_s=QUERY_S)
        fill(server, "going-on", 5, first=25)
        wait_until(lambda: seen() == 30, "what has arrived", within_s=QUERY_S)
    finally:
        query.stop()
    assert sorted(one for _, found in batches for one in found) == list(range(30))
    assert max(len(found) for _, found in batches) == 10


@pytest.mark.clause("Z7", "Z9")
def test_a_stream_whose_options_cannot_be_meant_says_so(
    spark: SparkSession, server: ServerProcess, url: str, tmp_path: Path
) -> None:
    create(server, "refused", partitions=1)
    rows = spark.readStream.format("driftq").options(url=url, subscribe="refused", endingOffsets="latest")
    writing = (
        rows.load().writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    with pytest.raises(PySparkException, match=r"endingOffsets: is for spark\.read"):
        run_to_end(writing.start)


def values(server: ServerProcess, topic: str) -> list[str]:
    answer = server.client().get(f"/v1/topics/{topic}/records")
    return [json.loads(line)["value"] for line in answer.body.splitlines()] if answer.status == 200 else []


@pytest.mark.clause("Z7", "Z6", "Z2")
def test_a_driver_that_is_killed_and_started_again_copies_every_message_once(
    server: ServerProcess, url: str, tmp_path: Path
) -> None:
    create(server, "original", partitions=2)
    fill(server, "original", 10 * BATCH_MESSAGES)
    command = [sys.executable, "-m", "tests.spark_versions.copying", url, "original", "copy"]
    command.append(str(tmp_path / "checkpoint"))
    with (tmp_path / "killed.log").open("wb") as log:
        driver = subprocess.Popen(command, cwd=ROOT, start_new_session=True, stdout=log, stderr=log)
        try:
            wait_until(
                lambda: driver.poll() is not None or len(values(server, "copy")) >= 2 * BATCH_MESSAGES,
                "some of them",
                within_s=QUERY_S,
            )
            assert driver.poll() is None, (tmp_path / "killed.log").read_text()[-5000:]
        finally:
            end_session(driver.pid)  # SIGKILL to the driver, its Java and its Python processes.
            driver.wait()
    copied = len(values(server, "copy"))
    assert copied < 10 * BATCH_MESSAGES
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr[-5000:]
    assert sorted(values(server, "copy")) == sorted(values(server, "original"))

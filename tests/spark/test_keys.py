"""Spark against a server that needs a key: it reads and writes with one, and shows it nowhere."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import driftq
from driftq.access.file import change_keys
from driftq.access.keys import Role, new_key
from tests.harness import ServerProcess
from tests.spark.waiting import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def keyed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, str, str]]:
    """A server, an admin's key and one that may read, produce and consume `spark.*`."""
    folder = tmp_path_factory.mktemp("keyed")
    admin, admin_text = new_key("admin", roles=[Role.ADMIN])
    roles = [Role.READ, Role.PRODUCE, Role.CONSUME]
    limited, text = new_key("spark", roles=roles, topics=["spark.*"])
    change_keys(folder / "keys.json", lambda _: [admin, limited])
    with ServerProcess(folder / "data", "--api-keys", str(folder / "keys.json")) as server:
        yield server, admin_text, text


@pytest.mark.clause("Y4", "Z2")
def test_a_query_reads_and_writes_with_a_key_that_no_plan_shows(
    spark: SparkSession,
    keyed: tuple[ServerProcess, str, str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    server, admin, key = keyed
    url = f"http://127.0.0.1:{server.port}"
    with driftq.Client(url, api_key=admin) as client:
        for topic in ("spark.in", "spark.out"):
            client.create_topic(topic, partitions=2)
        client.produce_many("spark.in", [{"n": n} for n in range(10)], key="k")
    options = {"url": url, "apiKey": key, "data": str(tmp_path / "nowhere")}
    rows = spark.read.format("driftq").option("subscribe", "spark.in").options(**options).load()
    assert rows.count() == 10
    shown = [_plan(rows)]
    stream = spark.readStream.format("driftq").option("subscribe", "spark.in").options(**options).load()
    writing = (
        stream.selectExpr("key", "value")
        .writeStream.format("driftq")
        .option("topic", "spark.out")
        .option("url", url)
        .option("apiKey", key)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
    )
    query = run_to_end(writing.trigger(availableNow=True).start)
    shown += [_plan(stream), json.dumps(query.lastProgress, default=str), str(query.status)]
    query.explain(True)
    rows.explain("extended")
    with driftq.Client(url, api_key=key) as client:
        assert len(list(client.records("spark.out"))) == 10
    refused = spark.read.format("driftq").option("subscribe", "spark.in").option("url", url)
    with pytest.raises(Exception, match="needs an API key") as none:
        refused.load().count()
    shown.append(str(none.value))
    for file in (tmp_path / "checkpoint").rglob("*"):
        if file.is_file():
            shown.append(file.read_bytes().decode("latin-1"))
    said = capfd.readouterr()
    secret = key.rpartition("_")[2]
    for text in [*shown, said.out, said.err, server.output, server.errors]:
        assert secret not in text


def _plan(rows: DataFrame) -> str:
    execution: Any = rows._jdf.queryExecution()
    return str(execution.toString())

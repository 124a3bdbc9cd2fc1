"""Topics as a Spark sink: what is written, and that a repeated micro-batch adds nothing."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def records(server: ServerProcess, topic: str) -> list[dict[str, Any]]:
    content = server.client().get(f"/v1/topics/{topic}/records").body
    return [json.loads(line) for line in content.splitlines()]


def drop(folder: Path, name: str, numbers: range) -> None:
    """A file with a row for each number, for a stream that reads the folder."""
    folder.mkdir(exist_ok=True)
    lines = [json.dumps({"key": f"k{number % 3}", "value": f"v{number}"}) for number in numbers]
    part = folder / f".{name}"
    part.write_text("\n".join(lines))
    part.rename(folder / name)


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema("key string, value string").json(str(folder))


def run(rows: DataFrame, url: str, topic: str, *, checkpoint: str) -> str:
    """One run over what is there; the id of the query."""
    query = (
        rows.writeStream.format("driftq")
        .option("url", url)
        .option("topic", topic)
        .option("partitions", "2")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(240)
    return query.id


@pytest.mark.clause("Z2", "Z6")
def test_a_replayed_micro_batch_adds_nothing(
    spark: SparkSession, server: ServerProcess, url: str, tmp_path: Path, checkpoint: str
) -> None:
    """Spark forgets that it committed the last batch, as after a kill between our commit and its own; and
    the second time the rows are cut into other tasks, in another order."""
    drop(tmp_path / "in", "a.json", range(40))
    rows = stream(spark, tmp_path / "in")
    query_id = run(rows, url, "sink.replayed", checkpoint=checkpoint)
    first = records(server, "sink.replayed")
    assert sorted(line["value"] for line in first) == sorted(f"v{number}" for number in range(40))
    assert {line["partition"] for line in first} == {0, 1}

    for mark in (Path(checkpoint) / "commits").iterdir():
        mark.unlink()
    assert run(rows.repartition(5), url, "sink.replayed", checkpoint=checkpoint) == query_id
    assert records(server, "sink.replayed") == first

    drop(tmp_path / "in", "b.json", range(40, 50))
    run(rows, url, "sink.replayed", checkpoint=checkpoint)
    counted = Counter(line["value"] for line in records(server, "sink.replayed"))
    assert counted == {f"v{number}": 1 for number in range(50)}
    staged = list((Path(checkpoint) / "driftq-sink").rglob("*.arrow"))
    assert len(staged) == 1, "only the last batch is kept"


@pytest.mark.clause("Z2")
def test_a_batch_writes_every_row_to_its_topic(spark: SparkSession, server: ServerProcess, url: str) -> None:
    rows = spark.range(30).selectExpr(
        "concat('k', id % 5) as key",
        "concat('v', id) as value",
        "if(id % 2 = 0, 'sink.even', null) as topic",
        'if(id = 7, \'{"run_id":"r"}\', null) as envelope',
        "id as number",
    )
    rows.repartition(3).write.format("driftq").option("url", url).option("topic", "sink.odd").mode(
        "append"
    ).save()
    even, odd = records(server, "sink.even"), records(server, "sink.odd")
    assert sorted(line["value"] for line in even) == sorted(f"v{number}" for number in range(0, 30, 2))
    assert sorted(line["value"] for line in odd) == sorted(f"v{number}" for number in range(1, 30, 2))
    assert all(line["key"] == f"k{int(line['value'][1:]) % 5}" for line in even + odd)
    assert [line["value"] for line in odd if line.get("envelope") == {"run_id": "r"}] == ["v7"]


@pytest.mark.clause("Z2")
def test_a_batch_under_a_name_is_written_once(
    spark: SparkSession, server: ServerProcess, url: str, tmp_path: Path
) -> None:
    rows = spark.range(20).selectExpr("concat('v', id) as value")
    for parts in (3, 2):
        writing = (
            rows.repartition(parts).write.format("driftq").option("url", url).option("topic", "sink.named")
        )
        named = writing.option("writer", "nightly/2026-01-08").option("stagingLocation", str(tmp_path))
        named.mode("append").save()
    assert sorted(line["value"] for line in records(server, "sink.named")) == sorted(
        f"v{number}" for number in range(20)
    )


@pytest.mark.clause("Z2")
@pytest.mark.parametrize(
    ("columns", "options", "problem"),
    [
        (["id as value"], {"topic": "t"}, "cast it"),
        (["cast(null as string) as value"], {"topic": "t"}, "is null in some row"),
        (["'v' as value"], {"topic": "t", "writer": "w"}, "stagingLocation"),
    ],
)
def test_what_cannot_be_written_is_refused_in_plain_words(
    spark: SparkSession, url: str, columns: list[str], options: dict[str, str], problem: str
) -> None:
    rows = spark.range(2).selectExpr(*columns)
    with pytest.raises(Exception, match=problem):
        rows.write.format("driftq").option("url", url).options(**options).mode("append").save()

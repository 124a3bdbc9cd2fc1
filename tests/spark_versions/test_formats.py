"""Both formats in a session that finds them by itself: reading, options, columns, and batch sinks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from driftq.pipeline import register
from driftq.pipeline.spark.compat import HAS_PUSHDOWN
from tests.harness import ServerProcess
from tests.spark.event_log import append
from tests.spark.topics import create, fill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read(spark: SparkSession, url: str, topic: str, **more: str) -> DataFrame:
    return spark.read.format("driftq").options(url=url, subscribe=topic, **more).load()


def ids(rows: DataFrame) -> list[int]:
    return sorted(int(row.event_id[1:]) for row in rows.select("event_id").collect())


def refusal(load: Any) -> str:
    with pytest.raises(PySparkException) as refused:
        load()
    return str(refused.value)


@pytest.mark.clause("Z7", "Z9")
def test_a_session_finds_both_formats_and_registering_them_changes_nothing(
    spark: SparkSession, server: ServerProcess, url: str
) -> None:
    create(server, "found")
    fill(server, "found", 50)
    append(server, 1, 20)
    events = spark.read.format("driftq-events").option("url", url)
    for _ in range(2):
        assert ids(read(spark, url, "found")) == list(range(50))
        assert [row.position for row in events.load().orderBy("position").collect()] == list(range(1, 21))
        register(spark)


@pytest.mark.clause("Z7", "Z9")
def test_options_of_kafka_users_bound_and_cut_a_batch(
    spark: SparkSession, server: ServerProcess, url: str
) -> None:
    create(server, "options", partitions=2)
    fill(server, "options", 60)
    first = read(spark, url, "options", includeHeaders="true").orderBy("offset").first()
    assert first is not None
    assert first.headers is None
    headers = read(spark, url, "options", includeHeaders="true").schema["headers"].dataType
    assert headers.simpleString() == "array<struct<key:string,value:binary>>"
    assert "headers" not in read(spark, url, "options").columns
    everything = read(spark, url, "options", startingTimestamp="0", endingTimestamp="99999999999999")
    assert ids(everything) == list(range(60))
    assert ids(read(spark, url, "options", endingTimestamp="1")) == []
    assert read(spark, url, "options").rdd.getNumPartitions() == 2
    assert 5 <= read(spark, url, "options", minPartitions="6").rdd.getNumPartitions() <= 7
    assert read(spark, url, "options", maxRecordsPerPartition="5").rdd.getNumPartitions() >= 12
    between = {
        "startingOffsets": '{"options":{"0":20,"1":20}}',
        "endingOffsets": '{"options":{"0":40,"1":40}}',
    }
    assert ids(read(spark, url, "options", **between)) == list(range(20, 40))


@pytest.mark.clause("Z7", "Z9")
def test_unknown_options_are_refused_when_the_rows_are_loaded_or_saved(
    spark: SparkSession, server: ServerProcess, url: str
) -> None:
    create(server, "unknown", partitions=1)
    said = refusal(lambda: read(spark, url, "unknown", startingOfsets="earliest"))
    assert "did you mean startingOffsets?" in said
    stream = spark.readStream.format("driftq").options(url=url, subscribe="unknown", maxOfsetsPerTrigger="1")
    assert "did you mean maxOffsetsPerTrigger?" in refusal(stream.load)
    events = spark.read.format("driftq-events").options(url=url, startPosition="1")
    assert "did you mean startingPosition?" in refusal(events.load)
    rows = spark.createDataFrame([("v",)], "value string")
    said = refusal(
        lambda: rows.write.format("driftq").options(url=url, topik="unknown").mode("append").save()
    )
    assert "did you mean topic?" in said


@pytest.mark.clause("Z7", "Z2")
def test_a_batch_is_appended_and_a_named_one_only_once(
    spark: SparkSession, server: ServerProcess, url: str, tmp_path: Path
) -> None:
    rows = spark.range(30).selectExpr("concat('k', id % 3) key", "concat('v', id) value", "id other")
    rows.write.format("driftq").options(url=url, topic="plain", partitions="2").mode("append").save()
    assert read(spark, url, "plain").select("value").distinct().count() == 30
    named = {"writer": "report", "stagingLocation": str(tmp_path / "staged")}
    for _ in range(2):
        rows.write.format("driftq").options(url=url, topic="named", **named).mode("append").save()
    assert read(spark, url, "named").count() == 30


def scanned(rows: DataFrame) -> tuple[list[int], int]:
    """The ids of the rows, and how many rows Spark got from the reader for them."""
    found = sorted(row.offset for row in rows.collect())
    plan: Any = rows._jdf.queryExecution().executedPlan()
    leaves = plan.collectLeaves()
    metrics = [leaves.apply(index).metrics() for index in range(leaves.size())]
    return found, sum(each.apply("numOutputRows").value() for each in metrics)


@pytest.mark.clause("Z7", "Z9")
def test_filters_narrow_what_is_read_where_the_query_asks_for_it(
    spark: SparkSession, server: ServerProcess, url: str
) -> None:
    create(server, "filtered", partitions=2)
    fill(server, "filtered", 50)
    assert read(spark, url, "filtered").count() == 50  # Meanwhile the millisecond of their timestamps passes.
    fill(server, "filtered", 50, first=50)
    narrow, wanted = "partition = 1 AND offset >= 90", read(spark, url, "filtered").where("partition = 1")
    plainly = scanned(read(spark, url, "filtered").where(narrow))
    assert plainly == (sorted(row.offset for row in wanted.where("offset >= 90").collect()), 100)
    asked = {"pushDownPredicate": "true"}
    if not HAS_PUSHDOWN:
        said = refusal(lambda: read(spark, url, "filtered", **asked).count())
        assert "pushDownPredicate: needs pyspark 4.1 or newer" in said
        return
    said = refusal(lambda: read(spark, url, "filtered", **asked).count())
    assert "spark.sql.python.filterPushdown.enabled" in said
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        found, got = scanned(read(spark, url, "filtered", **asked).where(narrow))
        assert (found, got) == (plainly[0], len(plainly[0]))
        at = read(spark, url, "filtered").selectExpr("max(timestamp) AS at").collect()[0].at
        late = f"timestamp >= TIMESTAMP '{at.isoformat(sep=' ')}'"
        found, got = scanned(read(spark, url, "filtered", **asked).where(late))
        assert 0 < got == len(found) < 100
        assert found == scanned(read(spark, url, "filtered").where(late))[0]
        events = spark.read.format("driftq-events").options(url=url, **asked).load()
        filtered = events.where("position > 5").selectExpr("position AS offset")
        found, got = scanned(filtered)
        assert (len(found), min(found, default=6)) == (got, 6)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.clause("Z9")
def test_why_filters_narrow_on_request_only(spark: SparkSession, server: ServerProcess, url: str) -> None:
    """Spark keeps a narrowed plan with the DataFrame it came from. When it no longer does, push always."""
    create(server, "kept-plan", partitions=1)
    fill(server, "kept-plan", 40)
    if not HAS_PUSHDOWN:
        return
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        rows = read(spark, url, "kept-plan")
        assert (rows.where("offset >= 30").count(), rows.count()) == (10, 40)
        asked = read(spark, url, "kept-plan", pushDownPredicate="true")
        assert (asked.where("offset >= 30").count(), asked.count()) == (10, 10), "of 40"
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")

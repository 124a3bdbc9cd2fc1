"""Staged rows: the first finished stage of a batch is the batch, for every later try."""

from pathlib import Path
from typing import Any

import pyarrow as arrow
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from driftq.errors import InvalidArgument
from driftq.pipeline.sink import staging as module
from driftq.pipeline.sink.options import read_sink_options
from driftq.pipeline.sink.staging import Staging, checked
from driftq.pipeline.sink.writers import query_id

VALUE = StructType([StructField("value", StringType())])


def batch(**columns: list[Any]) -> arrow.RecordBatch:
    return arrow.RecordBatch.from_pydict(columns)


def values(staging: Staging, names: list[str]) -> list[str]:
    return [value for rows in staging.rows(names) for value in rows.column("value").to_pylist()]


@pytest.mark.clause("Z2")
def test_the_first_stage_of_a_batch_counts_whatever_comes_later(tmp_path: Path) -> None:
    staging = Staging(tmp_path.as_uri(), "w")
    first = staging.stage([batch(value=["a", "b"]), batch(value=["c"])], topic="t")
    second = Staging(tmp_path.as_uri(), "w").stage([batch(value=["c", "b", "a"])], topic="t")
    assert staging.publish(7, first) == first
    again = Staging(tmp_path.as_uri(), "w").publish(7, second)
    assert values(staging, again) == ["a", "b", "c"]


@pytest.mark.clause("Z2")
def test_only_batches_that_spark_may_repeat_are_kept(tmp_path: Path) -> None:
    staging = Staging(tmp_path.as_uri(), "w")
    for number in range(3):
        staging.publish(number, staging.stage([batch(value=[f"v{number}"])], topic="t"))
        staging.stage([batch(value=["left by a task that was killed"])], topic="t")
        staging.clean(before=number)
    assert len(list(tmp_path.rglob("*.arrow"))) == 1
    assert values(staging, staging.publish(2, [])) == ["v2"]


@pytest.mark.clause("Z2")
def test_writers_do_not_see_each_other(tmp_path: Path) -> None:
    one, other = Staging(tmp_path.as_uri(), "a/b"), Staging(tmp_path.as_uri(), "a")
    names = one.stage([batch(value=["x"])], topic="t")
    one.publish(0, names)
    assert other.publish(0, []) == []
    other.clean(before=5)
    assert values(one, one.publish(0, [])) == ["x"]


@pytest.mark.clause("Z2")
def test_many_rows_are_staged_in_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_BYTES", 100)
    staging = Staging(tmp_path.as_uri(), "w")
    names = staging.stage([batch(value=[f"{number:050d}"]) for number in range(9)], topic="t")
    assert len(names) > 2
    assert values(staging, names) == [f"{number:050d}" for number in range(9)]
    assert staging.stage([], topic="t") == []


@pytest.mark.clause("Z2")
def test_rows_become_the_columns_of_a_message() -> None:
    rows = checked(batch(number=[1, 2], topic=[None, "other"], value=["a", "b"]), topic="t")
    assert rows.to_pydict() == {
        "key": [None, None],
        "value": ["a", "b"],
        "envelope": [None, None],
        "topic": ["t", "other"],
    }


@pytest.mark.clause("Z2")
@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (batch(value=["a", None]), "value: is null in some row"),
        (batch(value=["a"], topic=[None]), "topic: is null in some row"),
        (batch(value=["a", "b"], topic=["t", "t"], envelope=[None, '{"tenant": 1}']), "is not an envelope"),
        (batch(value=["a"], topic=["t"], envelope=["no JSON"]), "'no JSON' is not an envelope"),
    ],
)
def test_rows_that_are_no_message_are_refused_in_plain_words(rows: arrow.RecordBatch, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        checked(rows, topic=None)


@pytest.mark.clause("Z2")
@pytest.mark.parametrize(
    ("given", "options", "problem"),
    [
        (VALUE, {}, "option"),
        (VALUE, {"topic": "t", "partitions": "0"}, "partitions"),
        (VALUE, {"topic": "t", "partitions": "many"}, "'many' is not a number"),
        (VALUE, {"topic": "t", "checkpointLocation": "hdfs://x/y"}, "stagingLocation"),
        (StructType([StructField("text", StringType())]), {"topic": "t"}, "value"),
        (StructType([StructField("value", LongType())]), {"topic": "t"}, "cast"),
    ],
)
def test_options_that_cannot_be_followed_are_named(
    given: StructType, options: dict[str, str], problem: str
) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        read_sink_options(options, given, overwrite=False)
    with pytest.raises(InvalidArgument, match="append"):
        read_sink_options({"topic": "t"}, VALUE, overwrite=True)


@pytest.mark.clause("Z2")
def test_places_may_be_written_as_spark_writes_them(tmp_path: Path) -> None:
    for place, url in [
        (str(tmp_path), tmp_path.as_uri()),
        (f"file:{tmp_path}", tmp_path.as_uri()),
        (tmp_path.as_uri(), tmp_path.as_uri()),
        ("s3a://bucket/x", "s3://bucket/x"),
    ]:
        options = {"topic": "t", "checkpointLocation": place}
        assert read_sink_options(options, VALUE, overwrite=False).checkpoint == url
    (tmp_path / "metadata").write_text('{"id":"4f-2"}')
    assert query_id(tmp_path.as_uri()) == "4f-2"

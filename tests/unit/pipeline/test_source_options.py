"""Options of the formats: what is refused, and what the refusal says."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    In,
    IsNotNull,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import StringType, StructField, StructType

from driftq.errors import InvalidArgument
from driftq.pipeline.sink.options import read_sink_options
from driftq.pipeline.source.event_options import read_event_options
from driftq.pipeline.source.filters import ValueRange, limits_of
from driftq.pipeline.source.offsets import Times, reaches
from driftq.pipeline.source.options import read_topic_options

VALUES = StructType([StructField("value", StringType())])


@pytest.mark.clause("Z9")
@pytest.mark.parametrize(
    ("given", "near"),
    [
        ({"startingOfsets": "earliest"}, "startingOffsets"),
        ({"startingoffset": "earliest"}, "startingOffsets"),
        ({"maxOffsetPerTrigger": "1"}, "maxOffsetsPerTrigger"),
        ({"minPartition": "1"}, "minPartitions"),
        ({"includeHeader": "true"}, "includeHeaders"),
        ({"kafka.bootstrap.servers": "here:9092"}, "subscribePattern"),
        ({"path": "orders"}, "there are"),
    ],
)
@pytest.mark.parametrize("streaming", [True, False])
def test_an_unknown_option_of_the_topic_source_is_refused_with_the_nearest(
    given: dict[str, str], near: str, streaming: bool
) -> None:
    with pytest.raises(InvalidArgument) as refused:
        read_topic_options({"subscribe": "orders"} | given, streaming=streaming)
    assert refused.value.field == next(iter(given))
    assert near in refused.value.problem


@pytest.mark.clause("Z9")
def test_an_unknown_option_of_the_event_source_and_of_the_sink_is_refused_with_the_nearest() -> None:
    with pytest.raises(InvalidArgument, match=r"startPosition: .*did you mean startingPosition\?"):
        read_event_options({"startPosition": "1"}, streaming=False)
    with pytest.raises(InvalidArgument, match=r"stagingLocaton: .*did you mean stagingLocation\?"):
        read_sink_options({"topic": "a", "stagingLocaton": "/tmp"}, VALUES, overwrite=False)
    named_by_spark = {"topic": "a", "queryName": "mine", "checkpointLocation": "/tmp/checkpoint"}
    assert read_sink_options(named_by_spark, VALUES, overwrite=False).topic == "a"


@pytest.mark.clause("Z9")
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"startingTimestamp": "yesterday"}, "startingTimestamp"),
        ({"startingTimestamp": '{"orders":{"0":1}}'}, "startingTimestamp"),
        ({"startingOffsetsByTimestamp": "1767225600000"}, "startingOffsetsByTimestamp"),
        ({"startingOffsetsByTimestamp": '{"orders":{"0":-1}}'}, "startingOffsetsByTimestamp"),
        ({"endingOffsetsByTimestamp": '{"orders":{"first":1}}'}, "endingOffsetsByTimestamp"),
        ({"startingOffsetsByTimestampStrategy": "first"}, "startingOffsetsByTimestampStrategy"),
        ({"minPartitions": "0"}, "minPartitions"),
        ({"maxRecordsPerPartition": "many"}, "maxRecordsPerPartition"),
        ({"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "10"}, "minOffsetsPerTrigger"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay"),
        ({"maxWait": "soon"}, "maxWait"),
        ({"maxWait": "21s"}, "maxWait"),
        ({"includeHeaders": "some"}, "includeHeaders"),
        ({"pushDownPredicate": "true", "newestBy": "key"}, "pushDownPredicate"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_its_name(given: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        read_topic_options({"subscribe": "orders"} | given, streaming=False)


@pytest.mark.clause("Z9")
@pytest.mark.parametrize(
    "name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp", "pushDownPredicate"]
)
def test_a_stream_has_no_end_and_no_filters(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{name}: is for spark.read"):
        read_topic_options({"subscribe": "orders", name: "1"}, streaming=True)


def test_options_are_read_whatever_their_case() -> None:
    options = read_topic_options(
        {
            "SUBSCRIBE": "orders",
            "minoffsetspertrigger": "5",
            "MAXTRIGGERDELAY": "2 min",
            "startingoffsetsbytimestamp": '{"orders":{"0":7}}',
        },
        streaming=True,
    )
    assert options.messages_min == 5
    assert options.trigger_delay_ms == 120_000
    assert isinstance(options.starting, Times)
    assert (options.starting.of("orders", "0"), options.starting.of("orders", "1")) == (7, None)
    assert read_topic_options({"subscribe": "orders"}, streaming=True).trigger_delay_ms == 900_000


@pytest.mark.clause("Z9")
def test_filters_become_limits_and_what_is_not_understood_limits_nothing() -> None:
    at = dt.datetime(2026, 1, 5, tzinfo=dt.UTC)
    limits = limits_of(
        [
            GreaterThan(("offset",), 10),
            LessThanOrEqual(("offset",), 20),
            In(("offset",), (3, 12, 15)),
            EqualNullSafe(("partition",), 2),
            LessThanOrEqual(("timestamp",), at),
            In(("topic",), ("a", "b")),
            EqualTo(("topic",), "b"),
        ]
    )
    assert limits.of("offset") == ValueRange(11, 16)
    assert [number for number in range(5) if number in limits.of("partition")] == [2]
    assert limits.of("timestamp") == ValueRange(None, 1_767_571_200_000_001)
    assert (limits.allows("topic", "a"), limits.allows("topic", "b")) == (False, True)
    vague: list[Any] = [
        Not(EqualTo(("offset",), 1)),
        IsNotNull(("offset",)),
        StringStartsWith(("topic",), "a"),
        EqualTo(("offset",), True),
        In(("offset",), (1, "x")),
        LessThanOrEqual(("timestamp",), at.replace(tzinfo=None)),
        EqualTo(("payload", "offset"), 1),
    ]
    nothing = limits_of(vague)
    assert (nothing.of("offset"), nothing.of("timestamp")) == (ValueRange(), ValueRange())
    assert nothing.allows("topic", "b")


def test_offsets_reach_a_pinned_end_in_every_partition_or_not() -> None:
    pinned = {"a": {"0": 5, "1": 7}, "b": {"0": 0}}
    assert reaches({"a": {"0": 5, "1": 8}}, pinned)
    assert not reaches({"a": {"0": 9, "1": 6}, "b": {"0": 3}}, pinned)
    assert not reaches({}, pinned)
    assert reaches({"position": 4}, {"position": 4})

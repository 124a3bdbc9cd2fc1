"""Options of the topic source as users of Spark's Kafka source know them, without Spark around the reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual
from pyspark.sql.streaming.datasource import ReadAllAvailable

from driftq.errors import InvalidArgument
from driftq.model.time import parse_rfc3339, utc
from driftq.pipeline.source.lag import LATEST
from driftq.pipeline.source.options import read_topic_options
from driftq.pipeline.source.pinned import PinnedEnd
from driftq.pipeline.source.ranges import Cutting
from driftq.pipeline.source.topic_readers import NarrowedTopicReader, TopicReader, TopicStreamReader
from driftq.pipeline.spark.compat import SelfLimitingReader
from driftq.tables.reader import read_table
from tests.harness import ServerProcess
from tests.spark.topics import create, fill
from tests.spark.waiting import wait_until

ALL = ReadAllAvailable()


def options(server: ServerProcess, topic: str, **more: str) -> dict[str, str]:
    where = {"url": f"http://127.0.0.1:{server.port}", "data": str(server.data)}
    return where | {"subscribe": topic} | more


def batch(server: ServerProcess, topic: str, **more: str) -> TopicReader:
    return TopicReader(read_topic_options(options(server, topic, **more), streaming=False))


def stream(server: ServerProcess, topic: str, **more: str) -> TopicStreamReader:
    return TopicStreamReader(read_topic_options(options(server, topic, **more), streaming=True))


def rows(reader: Any, ranges: Any) -> list[dict[str, Any]]:
    return [row for one in ranges for batch in reader.read(one) for row in batch.to_pylist()]


def ids(found: list[dict[str, Any]]) -> list[int]:
    return sorted(int(row["event_id"][1:]) for row in found)


def produced(server: ServerProcess, topic: str) -> dict[int, list[tuple[int, int]]]:
    """Of each partition the offsets and times of its messages."""
    content = server.client().get(f"/v1/topics/{topic}/records").body
    found: dict[int, list[tuple[int, int]]] = {}
    for line in map(json.loads, content.splitlines()):
        found.setdefault(line["partition"], []).append((line["offset"], parse_rfc3339(line["timestamp"])))
    return found


def in_several_milliseconds(server: ServerProcess, topic: str) -> dict[int, list[tuple[int, int]]]:
    """Messages of which every partition has some of an earlier and some of a later time."""
    first = 0
    while True:
        fill(server, topic, 20, first=first)
        first += 20
        times = produced(server, topic)
        if first >= 60 and all(len({at for _, at in each}) >= 3 for each in times.values()):
            return times


@pytest.mark.clause("Z9")
def test_a_starting_time_is_the_first_message_of_then_or_later(server: ServerProcess) -> None:
    create(server, "times", partitions=2)
    times = in_several_milliseconds(server, "times")
    for at in {at for each in times.values() for _, at in each}:
        reader = stream(
            server, "times", startingTimestamp=str(at), startingOffsetsByTimestampStrategy="latest"
        )
        ends = {number: each[-1][0] + 1 for number, each in times.items()}
        wanted = {
            str(number): next((offset for offset, time in each if time >= at), ends[number])
            for number, each in times.items()
        }
        assert reader.initialOffset() == {"times": wanted}


@pytest.mark.clause("Z9")
def test_times_for_each_partition_bound_a_batch_on_both_sides(server: ServerProcess) -> None:
    create(server, "between-times", partitions=2)
    times = in_several_milliseconds(server, "between-times")
    low = {number: sorted({at for _, at in each})[1] for number, each in times.items()}
    high = {number: each[-1][1] for number, each in times.items()}
    reader = batch(
        server,
        "between-times",
        startingOffsetsByTimestamp=json.dumps({"between-times": low}),
        endingOffsetsByTimestamp=json.dumps({"between-times": high}),
    )
    found = rows(reader, reader.partitions())
    wanted = [
        (number, offset)
        for number, each in times.items()
        for offset, at in each
        if low[number] <= at < high[number]
    ]
    assert sorted((row["partition"], row["offset"]) for row in found) == sorted(wanted)
    assert 0 < len(wanted) < sum(map(len, times.values()))


@pytest.mark.clause("Z9")
def test_a_time_after_the_last_message_is_an_error_unless_it_means_the_end(server: ServerProcess) -> None:
    create(server, "no-such-time", partitions=1)
    fill(server, "no-such-time", 5)
    later = str(produced(server, "no-such-time")[0][-1][1] + 1)
    with pytest.raises(InvalidArgument, match=r"startingTimestamp.*startingOffsetsByTimestampStrategy"):
        stream(server, "no-such-time", startingTimestamp=later).initialOffset()
    patient = stream(
        server, "no-such-time", startingTimestamp=later, startingOffsetsByTimestampStrategy="latest"
    )
    assert patient.initialOffset() == {"no-such-time": {"0": 5}}
    everything = batch(server, "no-such-time", endingTimestamp=later)
    assert ids(rows(everything, everything.partitions())) == [0, 1, 2, 3, 4]
    with pytest.raises(InvalidArgument, match="no partition 7"):
        times = json.dumps({"no-such-time": {"7": 0}})
        stream(server, "no-such-time", startingOffsetsByTimestamp=times).initialOffset()


@pytest.mark.clause("Z9")
def test_a_time_counts_before_times_and_these_before_offsets(server: ServerProcess) -> None:
    create(server, "precedence", partitions=1)
    fill(server, "precedence", 5)
    chosen = {
        "startingOffsets": "latest",
        "startingOffsetsByTimestamp": '{"precedence":{"0":99999999999999}}',
        "startingTimestamp": "0",
    }
    assert stream(server, "precedence", **chosen).initialOffset() == {"precedence": {"0": 0}}


@pytest.mark.clause("Z9")
def test_partitions_are_cut_until_there_are_enough_and_none_has_too_many(server: ServerProcess) -> None:
    create(server, "cut", partitions=3)
    fill(server, "cut", 120)
    whole = batch(server, "cut").partitions()
    assert len(whole) == 3
    many = batch(server, "cut", minPartitions="10")
    planned = many.partitions()
    assert 9 <= len(planned) <= 12
    assert ids(rows(many, planned)) == list(range(120))
    few = batch(server, "cut", minPartitions="2")
    assert len(few.partitions()) == 3
    small = batch(server, "cut", maxRecordsPerPartition="7")
    planned = small.partitions()
    assert max(len(rows(small, [one])) for one in planned) == 7
    assert ids(rows(small, planned)) == list(range(120))
    streaming = stream(server, "cut", maxRecordsPerPartition="7")
    start = streaming.initialOffset()
    ranges = streaming.partitions(start, streaming.latestOffset(start, ALL))
    assert len(ranges) == len(planned)
    with pytest.raises(InvalidArgument, match=r"maxRecordsPerPartition.*more than 10000"):
        Cutting(records_max=1).size(10_001, total=10_001)


@pytest.mark.clause("Z9", "Z3")
def test_a_cut_goes_through_the_files_of_a_table(sealing: ServerProcess) -> None:
    create(sealing, "cut-files", partitions=2, table=True)
    fill(sealing, "cut-files", 700)
    wait_until(lambda: read_table(str(sealing.data / "tables" / "cut-files")) is not None, "the table")
    reader = batch(sealing, "cut-files", maxRecordsPerPartition="30")
    planned = reader.partitions()
    assert any(one.files for one in planned)
    assert max(len(rows(reader, [one])) for one in planned) <= 30
    assert ids(rows(reader, planned)) == list(range(700))


@pytest.mark.clause("Z9")
def test_a_batch_waits_for_enough_messages_but_not_forever(server: ServerProcess) -> None:
    create(server, "enough", partitions=2)
    fill(server, "enough", 3)
    now = [1000.0]
    told = options(server, "enough", minOffsetsPerTrigger="10", maxTriggerDelay="90s")
    reader = TopicStreamReader(read_topic_options(told, streaming=True), clock=lambda: now[0])
    first = reader.latestOffset(reader.initialOffset(), ALL)
    assert len(rows(reader, reader.partitions(reader.initialOffset(), first))) == 3, "the first never waits"
    fill(server, "enough", 4, first=3)
    now[0] += 89
    assert reader.latestOffset(first, ALL) == first
    assert reader.reportLatestOffset()["~behind"] == 4
    now[0] += 1
    second = reader.latestOffset(first, ALL)
    assert ids(rows(reader, reader.partitions(first, second))) == [3, 4, 5, 6]
    fill(server, "enough", 10, first=7)
    third = reader.latestOffset(second, ALL)
    assert ids(rows(reader, reader.partitions(second, third))) == list(range(7, 17))
    fill(server, "enough", 1, first=17)
    reader.prepareForTriggerAvailableNow()
    assert reader.latestOffset(third, ALL) != third, "a run that ends takes what is there"


@pytest.mark.clause("P8", "Z9")
def test_headers_are_a_column_on_request(server: ServerProcess) -> None:
    create(server, "headers", partitions=1)
    fill(server, "headers", 2)
    produced = {"topic": "headers", "value": "{}", "headers": {"b": "2", "a": "é"}}
    assert server.client().post("/v1/produce", produced).status == 200
    plain = batch(server, "headers")
    assert "headers" not in rows(plain, plain.partitions())[0]
    reader = batch(server, "headers", includeHeaders="true")
    given = [{"key": "b", "value": b"2"}, {"key": "a", "value": "é".encode()}]
    assert [row["headers"] for row in rows(reader, reader.partitions())] == [None, None, given]


def narrowed(server: ServerProcess, topic: str, *filters: Any) -> tuple[list[int], int]:
    """What a query with these filters reads, and how many messages it asks the server for."""
    reader = NarrowedTopicReader(read_topic_options(options(server, topic), streaming=False))
    assert list(reader.pushFilters(list(filters))) == list(filters), "Spark applies all of them as well"
    planned = reader.partitions()
    return ids(rows(reader, planned)), sum(one.messages or 0 for one in planned)


@pytest.mark.clause("Z9")
def test_filters_on_topic_partition_offset_and_time_limit_what_is_asked_for(server: ServerProcess) -> None:
    create(server, "pushed", partitions=2)
    times = in_several_milliseconds(server, "pushed")
    create(server, "not-pushed", partitions=1)
    fill(server, "not-pushed", 10)
    flat = {offset: (number, at) for number, each in times.items() for offset, at in each}
    total = len(flat)
    both = "pushed,not-pushed"
    assert narrowed(server, both)[1] == total + 10
    assert narrowed(server, both, EqualTo(("topic",), "pushed"))[1] == total
    assert narrowed(server, both, In(("topic",), ("x", "not-pushed")))[1] == 10
    middle = sorted({at for _, at in flat.values()})[1]
    instant = utc(middle * 1000)
    cases: list[tuple[Any, Callable[[int, int, int], bool]]] = [
        (EqualTo(("partition",), 1), lambda _, number, __: number == 1),
        (LessThan(("partition",), 1), lambda _, number, __: number < 1),
        (GreaterThan(("offset",), 40), lambda offset, _, __: offset > 40),
        (LessThanOrEqual(("offset",), 12), lambda offset, _, __: offset <= 12),
        (EqualTo(("offset",), 17), lambda offset, _, __: offset == 17),
        (GreaterThanOrEqual(("timestamp",), instant), lambda _, __, at: at >= middle),
        (GreaterThan(("timestamp",), instant), lambda _, __, at: at > middle),
        (LessThan(("timestamp",), instant), lambda _, __, at: at < middle),
        (LessThanOrEqual(("timestamp",), instant), lambda _, __, at: at <= middle),
    ]
    for pushed, holds in cases:
        wanted = [offset for offset, (number, at) in flat.items() if holds(offset, number, at)]
        assert narrowed(server, "pushed", pushed) == (sorted(wanted), len(wanted)), pushed
        assert 0 < len(wanted) < total
    contradicting = [EqualTo(("partition",), 0), EqualTo(("partition",), 1)]
    assert narrowed(server, "pushed", *contradicting) == ([], 0)
    unknown = [EqualTo(("value",), "x"), EqualTo(("a", "b"), 1), EqualTo(("offset",), None)]
    assert narrowed(server, "pushed", *unknown)[1] == total


@pytest.mark.clause("Z7")
def test_before_spark_4_2_a_reader_limits_its_batches_itself_and_carries_the_lag(
    server: ServerProcess,
) -> None:
    create(server, "self-limiting", partitions=2)
    fill(server, "self-limiting", 25)
    reader = SelfLimitingReader(stream(server, "self-limiting", maxOffsetsPerTrigger="10"))
    first = reader.latestOffset()  # Spark asks for it before it asks where to start.
    start = reader.initialOffset()
    assert len(rows(reader, reader.partitions(start, first))) == 10
    assert first["~behind"] == 15
    second = reader.latestOffset()
    assert len(rows(reader, reader.partitions(first, second))) == 10

    # Resumed, it is handed the last planned offset; the batch may be repeated.
    resumed = SelfLimitingReader(stream(server, "self-limiting", maxOffsetsPerTrigger="10"))
    stored = json.loads(json.dumps(second))
    assert resumed.partitions(stored, stored) == []
    assert len(rows(resumed, resumed.partitions(first, stored))) == 10
    third = resumed.latestOffset()
    assert len(rows(resumed, resumed.partitions(stored, third))) == 5
    assert third["~behind"] == 0
    assert resumed.latestOffset() == third, "the same to the letter, or Spark would run an empty batch"
    assert len(rows(resumed, resumed.partitions(start, third))) == 25

    # A Spark that limits batches goes on from such an offset, and drops its notes.
    newer = stream(server, "self-limiting")
    assert newer.latestOffset(third, ALL) == third
    fill(server, "self-limiting", 5, first=25)
    fourth = newer.latestOffset(third, ALL)
    assert not any(name.startswith("~") for name in fourth)
    assert ids(rows(newer, newer.partitions(third, fourth))) == list(range(25, 30))


@pytest.mark.clause("Z7")
def test_runs_of_one_batch_repeat_up_to_the_end_that_the_first_one_saw(server: ServerProcess) -> None:
    create(server, "pinned", partitions=2)
    fill(server, "pinned", 25)
    pinned, read = PinnedEnd(), 0
    start: dict[str, Any] | None = None
    while True:
        reader = SelfLimitingReader(stream(server, "pinned", maxOffsetsPerTrigger="10"))
        if start is not None:
            reader.partitions(start, start)
        end = reader.latestOffset()
        read += len(rows(reader, reader.partitions(start or reader.initialOffset(), end)))
        assert LATEST in end
        if pinned.reached_at({"sources": [{"startOffset": start, "endOffset": end}]}):
            break
        fill(server, "pinned", 3, first=100 + read)  # It never runs dry.
        start = end
    assert 25 <= read <= 40
    assert pinned.reached_at({"sources": [{"startOffset": end, "endOffset": end}]})
    assert PinnedEnd().reached_at({"sources": [{"startOffset": None, "endOffset": {"a": {"0": 1}}}]})
    assert PinnedEnd().reached_at({"sources": [{"startOffset": 1, "endOffset": 2}]})

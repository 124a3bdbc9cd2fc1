"""The event log as a Spark source: sealed segments, the tail, and segments that are joined meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from driftq.errors import InvalidArgument, TopicStartedOver
from driftq.eventstore.objects import segment_files
from driftq.pipeline.compaction import CompactionJob
from driftq.pipeline.source.event_options import read_event_options
from driftq.pipeline.source.events import EventRange, EventReader, EventStreamReader
from driftq.pipeline.source.waits import AT_ONCE
from driftq.settings import load_settings
from tests.harness import ServerProcess
from tests.spark.event_log import append, seal
from tests.spark.waiting import run_to_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALL = ReadAllAvailable()
WOKEN_S = 15.0
"""Less than the source waits: what comes within it was woken."""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A log of which 120 events are sealed, ten a segment, and 30 are not."""
    with ServerProcess(tmp_path_factory.mktemp("events") / "data") as server:
        append(server, 1, 120)
        seal(server, segment_events=10)
        append(server, 121, 30)
        yield server


def options(server: ServerProcess, **more: str) -> dict[str, str]:
    return {"url": f"http://127.0.0.1:{server.port}", "data": str(server.data)} | more


def stream(server: ServerProcess, **more: str) -> EventStreamReader:
    return EventStreamReader(read_event_options(options(server, **more), streaming=True))


def rows(reader: EventReader | EventStreamReader, ranges: Any) -> list[dict[str, Any]]:
    found = [row for one in ranges for batch in reader.read(one) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: row["position"])


def ids(first: int, end: int) -> list[str]:
    return [f"e{number}" for number in range(first, end)]


@pytest.mark.clause("Z2", "Z3")
def test_an_event_reads_the_same_from_a_segment_and_from_the_server(log: ServerProcess) -> None:
    reader = stream(log)
    start, end = reader.initialOffset(), reader.latestOffset(reader.initialOffset(), ALL)
    assert (start, end) == ({"position": 1}, {"position": 151})
    planned = list(reader.partitions(start, end))
    assert any(one.segments for one in planned)
    found = rows(reader, planned)
    assert [row["event_id"] for row in found] == ids(1, 151)
    assert rows(reader, [EventRange(1, 151)]) == found, "all of it over HTTP"
    assert rows(
        reader, [*reader.partitions(start, {"position": 37}), *reader.partitions({"position": 37}, end)]
    ) == (found)
    elsewhere = stream(log, data=str(log.data / "nowhere"))
    assert not any(one.segments for one in elsewhere.partitions(start, end)), "not the server's folder"


@pytest.mark.clause("Z2")
def test_limits_ends_and_places(log: ServerProcess) -> None:
    reader = stream(log, startingPosition="100")
    reader.prepareForTriggerAvailableNow()
    at, seen = reader.initialOffset(), 0
    while (end := reader.latestOffset(at, ReadMaxRows(20))) != at:
        seen += len(rows(reader, reader.partitions(at, end)))
        assert reader.reportLatestOffset()["~behind"] == 51 - seen
        at = end
    assert seen == 51
    part = EventReader(
        read_event_options(options(log, startingPosition="5", endingPosition="9"), streaming=False)
    )
    assert [row["position"] for row in rows(part, part.partitions())] == [5, 6, 7, 8, 9]
    assert stream(log, startingPosition="latest").initialOffset() == {"position": 151}
    with pytest.raises(TopicStartedOver, match="event log"):
        reader.latestOffset({"position": 1000}, ALL)
    for name, wrong in (
        ("startingPosition", "0"),
        ("maxEventsPerTrigger", "x"),
        ("endingPosition", "earliest"),
    ):
        with pytest.raises(InvalidArgument, match=name):
            read_event_options({name: wrong}, streaming=False)


@pytest.mark.clause("Z1", "Z2", "Z3", "Z6")
def test_a_stream_goes_on_while_its_segments_are_joined(
    spark: SparkSession, log: ServerProcess, checkpoint: str
) -> None:
    seen: list[str] = []

    def take(batch: DataFrame, _: int) -> None:
        seen.extend(row.event_id for row in batch.orderBy("position").collect())

    def run() -> None:
        given = options(log, maxEventsPerTrigger="100")
        rows = spark.readStream.format("driftq-events").options(**given).load()
        writing = rows.writeStream.option("checkpointLocation", checkpoint).foreachBatch(take)
        run_to_end(writing.trigger(availableNow=True).start)

    run()
    assert seen == ids(1, 151)

    planned = stream(log).partitions({"position": 1}, {"position": 121})
    before = rows(stream(log), planned)
    said: list[str] = []
    job = CompactionJob(load_settings().pipeline(data=str(log.data)), events_max=40, grace_s=0.0)
    files = len(segment_files(log.data / "objects"))
    job.run(spark, said.append)  # Joins.
    job.run(spark, said.append)  # Removes what was joined: no reader is given time.
    assert len(segment_files(log.data / "objects")) < files
    assert any("joining" in line for line in said)
    assert rows(stream(log), planned) == before, "a plan made before finds its events"

    native = spark.read.parquet(*segment_files(log.data / "objects"))
    found = [row.event_id for row in native.orderBy("position").collect()]
    assert found == ids(1, 1 + len(found)), "no gap and no double"
    assert len(found) >= 120

    append(log, 151, 10)
    run()
    assert seen == ids(1, 161)


@pytest.mark.clause("Z2")
def test_a_source_with_nothing_new_is_woken_by_an_append(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with ServerProcess(tmp_path_factory.mktemp("waited") / "data") as server:
        reader = stream(server, maxWait="20s")
        at = reader.initialOffset()
        for _ in range(AT_ONCE):
            assert reader.latestOffset(at, ALL) == at
        with ThreadPoolExecutor() as pool:
            for number in range(1, 6):
                waiting = pool.submit(reader.latestOffset, at, ALL)
                append(server, number, 1)
                at = waiting.result(WOKEN_S)
                assert at == {"position": number + 1}
                assert reader.reportLatestOffset() == {**at, "~behind": 0, "~read": 1}
        reader.stop()

"""The topic source without Spark around it: offsets, limits, files and tail, and what is gone."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

import driftq
from driftq.errors import InvalidArgument, MessagesExpired, TopicNotFound, TopicStartedOver
from driftq.pipeline.source.offsets import allot
from driftq.pipeline.source.options import read_topic_options
from driftq.pipeline.source.ranges import TopicRange
from driftq.pipeline.source.topic_readers import TopicReader, TopicStreamReader
from driftq.pipeline.source.waits import AT_ONCE, Waits
from driftq.tables.reader import read_table
from tests.harness import ServerProcess
from tests.spark.topics import create, fill
from tests.spark.waiting import wait_until

ALL = ReadAllAvailable()
WOKEN_S = 15.0
"""Less than a source waits: what comes within it was woken."""


def options(server: ServerProcess, topic: str, **more: str) -> dict[str, str]:
    where = {"url": f"http://127.0.0.1:{server.port}", "data": str(server.data)}
    return where | {"subscribe": topic} | more


def stream(server: ServerProcess, topic: str, **more: str) -> TopicStreamReader:
    return TopicStreamReader(read_topic_options(options(server, topic, **more), streaming=True))


def batch(server: ServerProcess, topic: str, **more: str) -> TopicReader:
    return TopicReader(read_topic_options(options(server, topic, **more), streaming=False))


def rows(reader: TopicReader | TopicStreamReader, ranges: Any) -> list[dict[str, Any]]:
    """What Spark would get, in the order of partition and offset."""
    found = [row for one in ranges for batch in reader.read(one) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def ids(found: list[dict[str, Any]]) -> list[str]:
    return sorted((row["event_id"] for row in found), key=lambda text: int(text[1:]))


def numbered(first: int, end: int) -> list[str]:
    return [f"e{number}" for number in range(first, end)]


@pytest.mark.clause("Z2")
def test_a_limit_counts_messages_and_every_partition_gets_its_share(server: ServerProcess) -> None:
    create(server, "limits")
    fill(server, "limits", 100)
    reader = stream(server, "limits")
    at = reader.initialOffset()
    seen: list[dict[str, Any]] = []
    while (end := reader.latestOffset(at, ReadMaxRows(30))) != at:
        found = rows(reader, reader.partitions(at, end))
        assert len(found) == (30 if len(seen) < 90 else 10)
        assert reader.reportLatestOffset()["~behind"] == 100 - len(seen) - len(found)
        seen += found
        at = end
    assert ids(seen) == numbered(0, 100)


@pytest.mark.clause("Z2")
def test_shares_are_in_proportion_and_nobody_goes_without() -> None:
    waiting = {("a", "0"): 1000, ("a", "1"): 10, ("b", "0"): 0, ("b", "1"): 1}
    given = allot(waiting, 100)
    assert sum(given.values()) == 100
    assert given["b", "0"] == 0
    assert all(given[key] >= 1 for key in waiting if waiting[key])
    assert allot(waiting, 5000) == waiting


@pytest.mark.clause("Z2")
def test_available_now_ends_where_the_topic_ended_then(server: ServerProcess) -> None:
    create(server, "now")
    fill(server, "now", 40)
    reader = stream(server, "now")
    reader.prepareForTriggerAvailableNow()
    fill(server, "now", 40, first=40)
    create(server, "now-later")
    start = reader.initialOffset()
    middle = reader.latestOffset(start, ReadMaxRows(25))
    end = reader.latestOffset(middle, ReadMaxRows(25))
    assert ids(rows(reader, reader.partitions(start, end))) == numbered(0, 40)
    assert reader.latestOffset(end, ReadMaxRows(25)) == end


@pytest.mark.clause("Z2")
def test_a_pattern_finds_topics_that_are_made_later(server: ServerProcess) -> None:
    create(server, "pattern.a")
    fill(server, "pattern.a", 10)
    chosen = {"subscribe": "", "subscribePattern": r"pattern\..*", "startingOffsets": "latest"}
    reader = stream(server, "", **chosen)
    start = reader.initialOffset()
    create(server, "pattern.b")
    create(server, "other-pattern.b")
    assert reader.latestOffset(start, ALL) == start
    fill(server, "pattern.b", 10, first=10)
    fill(server, "other-pattern.b", 10)
    end = reader.latestOffset(start, ALL)
    assert ids(rows(reader, reader.partitions(start, end))) == numbered(10, 20)


@pytest.mark.clause("Z2")
def test_a_batch_reads_between_the_offsets_that_are_named(server: ServerProcess) -> None:
    create(server, "between", partitions=1)
    fill(server, "between", 20)
    chosen = batch(
        server, "between", startingOffsets='{"between":{"0":5}}', endingOffsets='{"between":{"0":12}}'
    )
    assert ids(rows(chosen, chosen.partitions())) == numbered(5, 12)
    oldest = batch(
        server, "between", startingOffsets='{"between":{"0":-2}}', endingOffsets='{"between":{"0":-1}}'
    )
    assert ids(rows(oldest, oldest.partitions())) == numbered(0, 20)
    nothing = batch(server, "between", startingOffsets="latest")
    assert nothing.partitions() == []
    with pytest.raises(TopicNotFound, match="nowhere"):
        batch(server, "nowhere").partitions()


@pytest.mark.clause("Z2")
@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({}, "subscribe"),
        ({"subscribe": "a", "subscribePattern": "b"}, "subscribe"),
        ({"subscribePattern": "("}, "subscribePattern"),
        ({"subscribe": "a", "startingOffsets": "first"}, "startingOffsets"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"x":1}}'}, "startingOffsets"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, "endingOffsets"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger"),
        ({"subscribe": "a", "failOnDataLoss": "perhaps"}, "failOnDataLoss"),
    ],
)
def test_an_option_that_cannot_be_meant_is_named(given: dict[str, str], named: str) -> None:
    with pytest.raises(InvalidArgument, match=named):
        read_topic_options(given, streaming=False)


@pytest.mark.clause("Z2", "Z3", "Z6")
def test_a_range_has_the_same_rows_before_and_after_it_is_sealed(sealing: ServerProcess) -> None:
    create(sealing, "seam", partitions=2, table=True)
    fill(sealing, "seam", 700)
    reader = stream(sealing, "seam")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    fetched = rows(reader, reader.partitions(start, end))
    assert ids(fetched) == numbered(0, 700)
    folder = sealing.data / "tables" / "seam"
    wait_until(lambda: read_table(str(folder)) is not None, "the table")
    fill(sealing, "seam", 5, first=700)

    planned = reader.partitions(start, end)
    sealed = [one for one in planned if one.files]
    assert sealed
    assert any(not one.files for one in planned), "the newest rows are not sealed yet"
    assert rows(reader, planned) == fetched

    elsewhere = stream(sealing, "seam", data=str(folder))
    assert not any(one.files for one in elsewhere.partitions(start, end)), "not the server's folder"

    cut = {"seam": {number: offset - 300 for number, offset in end["seam"].items()}}
    parts = [*reader.partitions(start, cut), *reader.partitions(cut, end)]
    assert rows(reader, parts) == fetched
    assert rows(reader, [_with_lost_files(one) for one in planned]) == fetched
    moved = [replace(one, instance="another server with a folder of the same name") for one in planned]
    assert rows(reader, moved) == fetched


def _with_lost_files(one: TopicRange) -> TopicRange:
    """The same range, its last file replaced meanwhile."""
    lost = [file._replace(path=f"{file.path}.gone") for file in one.files[-1:]]
    return replace(one, files=(*one.files[:-1], *lost))


@pytest.mark.clause("Z2")
def test_what_retention_has_removed_is_an_error_or_passed_over(sealing: ServerProcess) -> None:
    create(sealing, "short", partitions=1, retention_bytes=20_000)
    fill(sealing, "short", 400)
    reader = stream(sealing, "short")
    start = {"short": {"0": 0}}
    end = {"short": {"0": 400}}
    fill(sealing, "short", 400, first=400)
    client = sealing.client()
    wait_until(
        lambda: client.get("/v1/topics/short").body["partitions"][0]["first_offset"] > 100, "retention"
    )
    with pytest.raises(MessagesExpired, match="failOnDataLoss"):
        reader.latestOffset(start, ALL)
    with pytest.raises(MessagesExpired):
        reader.partitions(start, end)
    patient = stream(sealing, "short", failOnDataLoss="false")
    found = ids(rows(patient, patient.partitions(start, patient.latestOffset(start, ALL))))
    assert found == numbered(800 - len(found), 800)


@pytest.mark.clause("Z2")
def test_a_topic_that_was_made_again_is_noticed(server: ServerProcess) -> None:
    create(server, "again", partitions=1)
    fill(server, "again", 3)
    start = {"again": {"0": 500}}
    with pytest.raises(TopicStartedOver, match="restored"):
        stream(server, "again").latestOffset(start, ALL)
    patient = stream(server, "again", failOnDataLoss="false")
    end = patient.latestOffset(start, ALL)
    assert ids(rows(patient, patient.partitions(start, end))) == numbered(0, 3)


@pytest.mark.clause("Z2", "T4")
def test_a_query_goes_on_in_a_topic_that_was_made_again_and_misses_nothing_of_it(
    server: ServerProcess,
) -> None:
    create(server, "reborn", partitions=1)
    fill(server, "reborn", 5)
    reader = stream(server, "reborn")
    half, whole = {"reborn": {"0": 3}}, {"reborn": {"0": 5}}
    assert reader.latestOffset(reader.initialOffset(), ALL) == whole
    with driftq.Client(f"http://127.0.0.1:{server.port}") as client:
        client.call("DELETE", "/v1/topics/reborn")
    create(server, "reborn", partitions=2)
    assert stream(server, "reborn").initialOffset() == {"reborn": {"0": 5, "1": 5}}
    fill(server, "reborn", 40, first=5)
    end = reader.latestOffset(whole, ALL)
    assert ids(rows(reader, reader.partitions(whole, end))) == numbered(5, 45)
    with pytest.raises(MessagesExpired):  # Two of the old ones were never read.
        reader.latestOffset(half, ALL)
    patient = stream(server, "reborn", failOnDataLoss="false")
    end = patient.latestOffset(half, ALL)
    assert ids(rows(patient, patient.partitions(half, end))) == numbered(5, 45)


@pytest.mark.clause("Z2")
def test_a_named_reader_says_how_far_it_is(server: ServerProcess) -> None:
    create(server, "named", partitions=1)
    fill(server, "named", 10)
    reader = stream(server, "named", reader="projection-latest")
    client = server.client()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(4))
    (before,) = client.get("/v1/topics/named").body["readers"]
    assert (before["reader"], before["next_offset"], before["lag"]) == ("projection-latest", 0, 10)
    reader.commit(end)
    (after,) = client.get("/v1/topics/named").body["readers"]
    assert (after["next_offset"], after["lag"]) == (4, 6)


@pytest.mark.clause("Z6")
def test_a_server_that_is_restarted_is_waited_for(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        create(server, "restart")
        fill(server, "restart", 50)
        reader = stream(server, "restart")
        start = reader.initialOffset()
        end = reader.latestOffset(start, ALL)
        server.kill()
        server.spawn()  # It is not ready yet when the reader asks.
        assert ids(rows(reader, reader.partitions(start, end))) == numbered(0, 50)
        assert json.loads(json.dumps(end)) == end
        assert os.path.exists(server.data / "address")


@pytest.mark.clause("Z2")
def test_a_reader_of_the_newest_leaves_out_what_is_overtaken_and_says_how_many_it_read(
    server: ServerProcess,
) -> None:
    create(server, "overtaken", partitions=2)
    fill(server, "overtaken", 100)
    reader = stream(server, "overtaken", newestBy="key")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    found = rows(reader, reader.partitions(start, end))
    assert ids(found) == numbered(93, 100)
    assert reader.reportLatestOffset() == {**end, "~behind": 0, "~read": 100}
    with pytest.raises(InvalidArgument, match="newestBy"):
        stream(server, "overtaken", newestBy="value")


@pytest.mark.clause("Z2")
def test_a_source_with_nothing_new_waits_at_the_server(server: ServerProcess) -> None:
    """The first questions are answered at once; after them a message ends the wait."""
    create(server, "waited")
    reader = stream(server, "waited", maxWait="20s")
    at = reader.initialOffset()
    for _ in range(AT_ONCE):
        assert reader.latestOffset(at, ALL) == at
    with ThreadPoolExecutor() as pool:
        for number in range(5):
            waiting = pool.submit(reader.latestOffset, at, ALL)
            fill(server, "waited", 1, first=number)
            end = waiting.result(WOKEN_S)
            assert end != at
            assert ids(rows(reader, reader.partitions(at, end))) == [f"e{number}"]
            at = end


@pytest.mark.clause("Z2")
def test_a_source_that_waits_knows_partitions_that_its_offsets_do_not_name(server: ServerProcess) -> None:
    """The offsets of a query that began before its topic was there are empty."""
    create(server, "unnamed")
    reader = stream(server, "unnamed", maxWait="20s")
    for _ in range(AT_ONCE):
        assert reader.latestOffset({}, ALL) == {}
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(reader.latestOffset, {}, ALL)
        fill(server, "unnamed", 1)
        end = waiting.result(WOKEN_S)
    assert ids(rows(reader, reader.partitions({}, end))) == ["e0"]


@pytest.mark.clause("Z2")
def test_a_query_of_several_topics_or_with_an_end_does_not_wait(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        create(server, name)
    ended = stream(server, "one", maxWait="20s")
    ended.prepareForTriggerAvailableNow()
    several = stream(server, "one,two", maxWait="20s")
    monkeypatch.setattr(Waits, "next_ms", lambda _: pytest.fail("it would have waited"))
    for reader in (ended, several):
        at = reader.initialOffset()
        assert reader.latestOffset(at, ALL) == at

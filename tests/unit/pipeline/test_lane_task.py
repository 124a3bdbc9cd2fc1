"""What a publisher's task does with its rows, against a server in memory of the plainest kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as arrow
import pytest

from driftq.eventstore.published import decode_published
from driftq.eventstore.seal.segment import SCHEMA, StoredEvent
from driftq.pipeline.publisher.lane_task import LaneTask
from tests.harness import ServerProcess
from tests.unit.eventstore.test_segment import an_event


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as started:
        yield started


def batch(events: list[StoredEvent], *, lane: int = 0) -> arrow.RecordBatch:
    columns: list[Any] = []
    for field in SCHEMA:
        name = "occurred_at_us" if field.name == "occurred_at" else field.name
        columns.append(arrow.array([getattr(one, name) for one in events]).cast(field.type))
    return arrow.RecordBatch.from_arrays(
        [*columns, arrow.array([lane] * len(events), arrow.int32())], names=[*SCHEMA.names, "lane"]
    )


def task(server: ServerProcess, writer: str, **fields: Any) -> LaneTask:
    given: dict[str, Any] = {
        "url": f"http://127.0.0.1:{server.port}",
        "writer": writer,
        "epoch": 1,
        "confirmed": {},
        "sent_ids": frozenset(),
        "chunk_events": 3,
        "patience_s": 10,
        "recent_max": 4,
    }
    return LaneTask(**given | fields)


def topic_records(server: ServerProcess, topic: str) -> list[dict[str, Any]]:
    content = server.client().get(f"/v1/topics/{topic}/records").body
    return [json.loads(line) for line in content.splitlines()]


@pytest.mark.clause("U1", "U4")
def test_events_reach_their_topics_once_however_often_the_task_runs(server: ServerProcess) -> None:
    events = [
        an_event(number, aggregate_type=f"kind {number % 2}", aggregate_id=f"a{number % 3}")
        for number in range(1, 12)
    ]
    first = task(server, "w").publish(iter([batch(events[:6]), batch(events[6:])]))
    again = task(server, "w").publish(iter([batch(events)]))
    assert (first.appended, first.skipped, first.position) == (11, 0, 11)
    assert (again.appended, again.skipped) == (0, 11)
    assert first.topics == {"events.kind_200": {0: 10}, "events.kind_201": {0: 11}}
    assert first.recent == [(number, f"e{number}") for number in range(8, 12)]
    found = topic_records(server, "events.kind_201")
    published = [decode_published(line["value"]) for line in found]
    assert sorted(one.position for one in published) == [1, 3, 5, 7, 9, 11]
    assert all(line["key"] == one.aggregate_id for line, one in zip(found, published, strict=True))


@pytest.mark.clause("U3")
def test_known_events_are_not_sent(server: ServerProcess) -> None:
    events = [an_event(number, aggregate_type="dedup") for number in range(1, 7)]
    report = task(server, "w", sent_ids=frozenset({"e1", "e2", "e3"})).publish(iter([batch(events)]))
    assert (report.appended, report.skipped, report.position) == (3, 0, 6)


@pytest.mark.clause("U2")
def test_an_older_run_is_refused_and_says_so(server: ServerProcess) -> None:
    events = [an_event(number, aggregate_type="fenced") for number in range(1, 4)]
    task(server, "w", epoch=5).publish(iter([batch(events)]))
    report = task(server, "w", epoch=4).publish(iter([batch(events)]))
    assert report.refusal is not None
    assert report.refusal.replaced
    assert report.appended == 0


@pytest.mark.clause("U2")
def test_a_topic_that_lost_what_was_confirmed_is_not_written_to(server: ServerProcess) -> None:
    events = [an_event(number, aggregate_type="restored") for number in range(4, 7)]
    report = task(server, "w", confirmed={"events.restored": {0: 3}}).publish(iter([batch(events)]))
    assert report.refusal is not None
    assert not report.refusal.replaced
    assert topic_records(server, "events.restored") == []


@pytest.mark.clause("P4", "U1")
def test_a_full_topic_is_waited_for_not_lost(tmp_path: Path) -> None:
    """Room for two at a time, and a group that takes them: all arrive, in order."""
    limit = {"DRIFTQ_BROKER_PARTITION_MESSAGES_MAX": "2"}
    with ServerProcess(tmp_path / "data", env=limit) as small:
        client = small.client()
        client.post("/v1/topics", {"name": "events.order"})
        stream = small.stream("events.order", "g", "o", lease_ms=60_000)
        events = [an_event(number, payload="1") for number in range(1, 4)]
        sending = task(small, "w", chunk_events=3, patience_s=2)
        reports: list[Any] = []
        thread = Thread(target=lambda: reports.append(sending.publish(iter([batch(events)]))))
        thread.start()
        taken = []
        for delivery in stream:
            taken.append(decode_published(delivery["value"]).position)
            settled = {"topic": "events.order", "group": "g", "owner": "o"}
            settled |= {"partition": delivery["partition"], "offset": delivery["offset"]}
            client.post("/v1/ack", settled)
            if len(taken) == 3:
                break
        thread.join(60)
        stream.close()
        assert taken == [1, 2, 3]
        assert reports[0].appended == 3

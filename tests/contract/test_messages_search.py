"""Stored messages by key, run, tenant, offset and time: found at once, from the history and from the log."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import driftq
from driftq.history.file import history_end, read_history
from tests.contract.serving import PATIENCE_S, Server
from tests.support.waiting import wait_until


@pytest.fixture(scope="module", params=["with a history", "from the log alone", "in memory"])
def searched(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("searched")
    if request.param == "with a history":
        asked: dict[str, Any] = {"history": str(folder / "history.db"), "segment_records": 12}
        started = Server(folder / "log", **asked)
    else:
        started = Server(folder / "log" if request.param == "from the log alone" else None)
    with started as running:
        yield running


def offsets(server: Server, topic: str, **query: Any) -> list[int]:
    """Of all pages."""
    found: list[int] = []
    while True:
        answer = server.get(f"/v1/topics/{topic}/messages", **query)
        assert answer.status == 200, answer
        found += [message["offset"] for message in answer.json["messages"]]
        if "next" not in answer.json:
            return found
        query["after"] = answer.json["next"]


def test_a_message_is_found_at_once_by_each_of_its_names(searched: Server) -> None:
    topic = searched.new_topic(partitions=3)
    for number in range(60):
        key = f"user:{number % 4}"
        envelope = {"run_id": f"run-{number % 3}"} if number % 2 else {"tenant_id": f"tenant-{number % 5}"}
        made = searched.produce(topic, str(number), key=key, **envelope)
        assert made["offset"] == number
        assert offsets(searched, topic, key=key)[-1] == number
    numbers = range(60)
    assert offsets(searched, topic, key="user:1") == [one for one in numbers if one % 4 == 1]
    assert offsets(searched, topic, run_id="run-2") == [one for one in numbers if one % 2 and one % 3 == 2]
    assert offsets(searched, topic, tenant_id="tenant-3") == [
        one for one in numbers if not one % 2 and one % 5 == 3
    ]
    both = [one for one in numbers if one % 4 == 1 and one % 3 == 2]
    assert offsets(searched, topic, key="user:1", run_id="run-2") == both
    for nothing in ({"key": "user:9"}, {"run_id": "run"}, {"tenant_id": "tenant"}):
        assert offsets(searched, topic, **nothing) == []
    assert offsets(searched, topic) == list(numbers)
    assert offsets(searched, topic, limit=7, key="user:3") == [one for one in numbers if one % 4 == 3]
    assert offsets(searched, topic, limit=7, order="newest") == list(reversed(numbers))
    assert offsets(searched, topic, limit=2, order="newest", key="user:3") == [
        one for one in reversed(numbers) if one % 4 == 3
    ]
    assert offsets(searched, topic, offset=17) == [17]
    assert offsets(searched, topic, offset=60) == []
    partitions = [offsets(searched, topic, partition=number) for number in range(3)]
    assert sorted(offset for part in partitions for offset in part) == list(numbers)
    assert offsets(searched, topic, partition=1, key="user:1") == [
        one for one in partitions[1] if one % 4 == 1
    ]


def test_a_message_is_shown_as_it_is_stored(searched: Server) -> None:
    topic = searched.new_topic()
    searched.produce(topic, '{"id":1}', key="k", tenant_id="acme", run_id="r", step_id="s")
    [message] = searched.get(f"/v1/topics/{topic}/messages", key="k").json["messages"]
    [record] = searched.get(f"/v1/topics/{topic}/records").lines
    assert message == record
    with driftq.Client(f"http://127.0.0.1:{searched.port}") as client:
        [found] = client.messages.find(topic, tenant_id="acme")
        assert (found.json(), found.key, found.offset) == ({"id": 1}, "k", 0)
        assert found.envelope is not None
        assert found.envelope.run_id == "r"


def test_messages_are_found_by_time(searched: Server) -> None:
    topic = searched.new_topic(partitions=2)
    times: list[str] = []
    for number in range(20):
        searched.produce(topic, str(number), key=str(number))
        found = searched.get(f"/v1/topics/{topic}/messages", offset=number).json["messages"]
        times.append(found[0]["timestamp"])
    border = times[10]
    since = [number for number in range(20) if times[number] >= border]
    assert offsets(searched, topic, since=border) == since
    assert offsets(searched, topic, until=border) == [number for number in range(20) if number not in since]
    assert offsets(searched, topic, since=border, until=border) == []
    assert offsets(searched, topic, since=border, key="15") == [15]
    assert offsets(searched, topic, since="2100-01-01T00:00:00Z") == []


@pytest.mark.clause("H2")
def test_what_cannot_be_searched_is_refused(searched: Server) -> None:
    topic = searched.new_topic(partitions=2)
    path = f"/v1/topics/{topic}/messages"
    for wrong in (
        {"tenant": "acme"},
        {"since": "yesterday"},
        {"until": "2026-01-31T00:00:00"},
        {"offset": -1},
        {"partition": 2},
        {"partition": -1},
        {"limit": 0},
        {"limit": 1_001},
        {"after": "x"},
        {"order": "sideways"},
    ):
        searched.get(path, **wrong).refused(400, "INVALID_ARGUMENT")
    for missing in ("missing", "~jobs"):
        searched.get(f"/v1/topics/{missing}/messages").refused(404, "NOT_FOUND")


@pytest.mark.clause("O6")
def test_the_index_is_used_after_a_restart_and_a_topic_that_was_deleted_leaves_nothing(
    tmp_path: Path,
) -> None:
    history = tmp_path / "history.db"
    asked: dict[str, Any] = {"history": str(history), "segment_records": 12}
    with Server(tmp_path / "log", **asked) as server:
        topic, gone = server.new_topic(partitions=2), server.new_topic()
        for number in range(40):
            server.produce(topic, str(number), key=f"k-{number % 5}")
            server.produce(gone, str(number), key="k-0")
        assert server.post("/v1/seal").status == 200
        assert sealed(history) > 0
        assert rows(history) == 80
        server.kill()
        server.start()
        assert offsets(server, topic, key="k-0") == list(range(0, 40, 5))
        assert server.delete(f"/v1/topics/{gone}").status == 200
        server.produce(topic, "40", key="k-0")
        assert server.post("/v1/seal").status == 200
        wait_until("the rows are gone", lambda: rows(history) == 41, within_s=PATIENCE_S)
        assert offsets(server, topic, key="k-0") == [*range(0, 40, 5), 40]


def sealed(history: Path) -> int:
    database = read_history(str(history))
    assert database is not None
    with closing(database):
        return history_end(database)


def rows(history: Path) -> int:
    database = read_history(str(history))
    assert database is not None
    with closing(database):
        return int(database.execute("SELECT count(*) FROM search").fetchone()[0])

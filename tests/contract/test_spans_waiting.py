"""Spans that wait for a message: the commit that stores it wakes them, and nothing else does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from tests.contract.serving import PATIENCE_S, Answer, Server

LONG_MS = 30_000
WOKEN_S = 20.0
"""Less than the wait: what comes within it was woken."""


@pytest.fixture
def elsewhere() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def waiting_spans(
    pool: ThreadPoolExecutor, server: Server, topic: str, *, wait_ms: int = LONG_MS, **asked: Any
) -> Future[Answer]:
    began = threading.Event()

    def ask() -> Answer:
        other = Server(None)  # A connection beside that of the test.
        other.port = server.port
        try:
            began.set()
            return other.post(f"/v1/topics/{topic}/spans", {"wait_ms": wait_ms} | asked)
        finally:
            other.hang_up()

    future = pool.submit(ask)
    assert began.wait(PATIENCE_S)
    return future


def produce(server: Server, topic: str, value: str) -> int:
    answer = server.post("/v1/produce", {"topic": topic, "value": value})
    assert answer.status == 200, answer
    return int(answer.json["offset"])


@pytest.mark.clause("Z2")
def test_a_message_wakes_those_who_wait_for_it(server: Server, elsewhere: ThreadPoolExecutor) -> None:
    topic = server.new_topic(2)
    for number in range(20):
        where = [{"partition": partition, "from": number} for partition in range(2)]
        waiting = waiting_spans(elsewhere, server, topic, spans=where)
        assert produce(server, topic, "one") == number
        answer = waiting.result(WOKEN_S)
        assert sum(span["messages"] for span in answer.json["spans"]) == 1
        assert answer.json["next_offset"] == number + 1


@pytest.mark.clause("Z2")
def test_a_message_in_another_span_or_topic_wakes_nobody(
    server: Server, elsewhere: ThreadPoolExecutor
) -> None:
    topic, other = server.new_topic(1), server.new_topic(1)
    waiting = waiting_spans(elsewhere, server, topic, spans=[{"partition": 0, "from": 2}])
    for _ in range(2):
        produce(server, topic, "before the span")
        produce(server, other, "elsewhere")
    assert not waiting.done()
    produce(server, topic, "in it")
    (span,) = waiting.result(WOKEN_S).json["spans"]
    assert (span["from"], span["messages"]) == (2, 1)


@pytest.mark.clause("Z2")
def test_without_a_message_the_reply_comes_when_the_time_is_over(server: Server) -> None:
    topic = server.new_topic(1)
    answer = server.post(f"/v1/topics/{topic}/spans", {"wait_ms": 20})
    assert [span["messages"] for span in answer.json["spans"]] == [0]


@pytest.mark.clause("H2")
@pytest.mark.parametrize("wait_ms", [-1, 30_001, "soon"])
def test_a_wait_has_a_range(server: Server, wait_ms: object) -> None:
    topic = server.new_topic(1)
    assert server.post(f"/v1/topics/{topic}/spans", {"wait_ms": wait_ms}).status == 400


@pytest.mark.clause("T1")
def test_a_topic_that_is_deleted_ends_the_wait(server: Server, elsewhere: ThreadPoolExecutor) -> None:
    topic = server.new_topic(1)
    waiting = waiting_spans(elsewhere, server, topic)
    assert server.delete(f"/v1/topics/{topic}").status == 200
    assert waiting.result(WOKEN_S).status == 404


@pytest.mark.clause("H6")
def test_a_server_that_stops_ends_every_wait(tmp_path: Path, elsewhere: ThreadPoolExecutor) -> None:
    with Server(tmp_path / "log") as own:
        topic = own.new_topic(1)
        waiting = waiting_spans(elsewhere, own, topic)
        assert own.post(f"/v1/topics/{topic}/spans", {"wait_ms": 1}).status == 200
        code, _ = own.terminate()
        assert code == 0
        try:
            assert waiting.result(WOKEN_S).status in (200, 503)
        except (OSError, HTTPException):
            pass  # It had not reached the server.

"""Topics for the tests of the source: made and filled over HTTP."""

from __future__ import annotations

import json

from tests.harness import ServerProcess

PADDING = "x" * 60
AT_ONCE = 100


def create(server: ServerProcess, topic: str, *, partitions: int = 3, **more: object) -> None:
    answer = server.client().post("/v1/topics", {"name": topic, "partitions": partitions, **more})
    assert answer.status == 201, answer


def fill(server: ServerProcess, topic: str, count: int, *, first: int = 0) -> None:
    """Messages whose values are events e0, e1, …; the keys spread them over the partitions."""
    messages = [
        {
            "topic": topic,
            "key": f"k{number % 7}",
            "value": json.dumps({"event_id": f"e{number}", "n": number, "padding": PADDING}),
        }
        for number in range(first, first + count)
    ]
    client = server.client()
    for at in range(
        0, count, AT_ONCE
    ):  # Several frames, so that a small segment is full and sealed on the way.
        answer = client.post("/v1/produce/batch", {"messages": messages[at : at + AT_ONCE]})
        assert answer.body["failed"] == 0

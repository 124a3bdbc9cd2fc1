"""Published events for the tests: made, sent to a topic, and what a read model of them must hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby, islice
from random import Random
from typing import Any

from driftq.sinks import ReadModel
from tests.harness import ServerProcess

Event = dict[str, Any]
_SENT_AT_ONCE = 2_000


def event(sequence: int, *, of: str = "o-1", kind: str = "order", **more: Any) -> Event:
    return {
        "event_id": f"{kind}/{of}/{sequence}",
        "aggregate_type": kind,
        "aggregate_id": of,
        "sequence_number": sequence,
        "event_type": "Changed",
        "kind": "event",
        "operation": "update",
        "occurred_at": "2026-01-02T03:04:05.000006Z",
        "payload": {"at": sequence},
        "metadata": {},
        "schema_version": 1,
        "position": sequence,
    } | more


def history(aggregates: int, events: int, *, deleting: int = 7) -> list[Event]:
    """In order. Of every `deleting`-th aggregate the last event is a delete."""
    return [
        event(
            sequence,
            of=f"o-{which}",
            operation="delete" if which % deleting == 0 and sequence == events else "update",
        )
        for which in range(aggregates)
        for sequence in range(1, events + 1)
    ]


def mixed(events: Sequence[Event], *, seed: int, doubled: float = 0.1) -> list[Event]:
    """Shuffled, and a part of them twice."""
    random = Random(seed)
    some = [*events, *random.sample(events, int(len(events) * doubled))]
    random.shuffle(some)
    return some


def create(server: ServerProcess, topic: str, *, partitions: int = 2) -> None:
    assert server.client().post("/v1/topics", {"name": topic, "partitions": partitions}).status == 201


def send(server: ServerProcess, topic: str, events: Iterable[Event | str]) -> None:
    """Each event under its aggregate's id; a text goes as it is."""
    client = server.client()
    left = iter(events)
    while some := list(islice(left, _SENT_AT_ONCE)):
        messages = [
            {"topic": topic, "value": each}
            if isinstance(each, str)
            else {"topic": topic, "key": each["aggregate_id"], "value": json.dumps(each)}
            for each in some
        ]
        answer = client.post("/v1/produce/batch", {"messages": messages})
        assert (answer.status, answer.body["failed"]) == (200, 0)


def expected(events: Iterable[Event]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Rows and registry after ordered single delivery."""

    def aggregate(each: Event) -> tuple[str, str]:
        return each["aggregate_type"], each["aggregate_id"]

    last = [
        max(some, key=lambda each: each["sequence_number"])
        for _, some in groupby(sorted(events, key=aggregate), key=aggregate)
    ]
    rows = [
        (*aggregate(each), each["sequence_number"], each["payload"])
        for each in last
        if each["operation"] != "delete"
    ]
    return rows, [(*aggregate(each), each["sequence_number"], each["event_id"]) for each in last]


def found(model: ReadModel) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """The same of a read model, read back row by row."""
    return [tuple(row) for row in model.rows()], [tuple(row) for row in model.registry()]

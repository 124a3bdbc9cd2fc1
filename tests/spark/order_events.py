"""Events on a topic, as the publisher would put them there."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import msgspec

from driftq.eventstore.published import PublishedEvent
from driftq.model import Operation
from tests.harness import ServerProcess


def value(aggregate: str, sequence: int) -> str:
    event = PublishedEvent(
        event_id=f"{aggregate}-{sequence}",
        aggregate_type="order",
        aggregate_id=aggregate,
        sequence_number=sequence,
        event_type="changed",
        kind="fact",
        operation=Operation.APPEND,
        occurred_at=dt.datetime(2026, 1, 8, tzinfo=dt.UTC),
        payload={"n": sequence},
        metadata={},
        schema_version=1,
        position=sequence,
    )
    return msgspec.json.encode(event).decode()


def publish(server: ServerProcess, topic: str, events: Sequence[tuple[str, int]]) -> None:
    """Aggregates and sequences, in this order."""
    messages = [{"topic": topic, "key": name, "value": value(name, number)} for name, number in events]
    assert server.client().post("/v1/produce/batch", {"messages": messages}).body["failed"] == 0

"""The event store behind the loop: opened late, shared by those who wait, honest about what is missing."""

import asyncio
import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from driftq.errors import EventStoreUnusable, ShuttingDown
from driftq.eventstore import Append, EventStore
from driftq.eventstore.opening import open_events
from driftq.model import Event
from driftq.model.options.events import EventOptions
from driftq.server.events.service import EventAppendRequest, EventQueryRequest, EventsService


def fact(number: int) -> Event:
    return Event(
        event_id=f"e-{number}",
        aggregate_type="a",
        aggregate_id="b",
        event_type="t",
        kind="fact",
        payload=number,
    )


def test_a_server_starts_without_a_database_driver() -> None:
    code = "import sys, driftq.http.wire.server, driftq.cli.app; print('sqlalchemy' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EventStoreUnusable, match=r"SQLAlchemy is missing: install driftq\[sqlite\]"):
        open_events(EventOptions())


def test_without_what_writes_segments_events_are_stored_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("obstore", "pyarrow") else found(name)
    )
    events = open_events(EventOptions().within(str(tmp_path)))
    events.store.append([Append(fact(1))])
    assert events.sealer.take(force=True)
    events.sealer.step(flush=True)
    assert [event.position for event in events.store.read_log().events] == [1]
    events.close()
    assert not (tmp_path / "objects").exists()


@pytest.mark.clause("S6", "W7")
async def test_appends_that_wait_share_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    append_many = EventStore.append_many

    def counted(store: EventStore, requests: Sequence[Sequence[Append]]) -> Any:
        sizes.append(len(requests))
        return append_many(store, requests)

    monkeypatch.setattr(EventStore, "append_many", counted)
    loop = asyncio.get_running_loop()
    service = EventsService(EventOptions(), loop=loop, on_damage=lambda damage: pytest.fail(str(damage)))
    answers: list[Any] = []
    for number in range(150):
        service.append(EventAppendRequest([(fact(number), None)], answers.append))
    read: asyncio.Future[Any] = loop.create_future()
    service.read(EventQueryRequest(lambda store: store.read_log().events, read.set_result, placed=True))
    assert [event.position for event in await read] == list(range(1, 151))
    assert [answer[0].sequence_number for answer in answers] == list(range(1, 151))
    assert max(sizes) <= 64
    assert len(sizes) < 20
    await asyncio.to_thread(service.stop)
    with pytest.raises(ShuttingDown):
        service.append(EventAppendRequest([(fact(0), None)], answers.append))

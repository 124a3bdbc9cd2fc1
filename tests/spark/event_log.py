"""An event log for the tests of its source: appended over HTTP, sealed between two starts."""

from __future__ import annotations

from driftq.eventstore import SealOptions
from driftq.eventstore.opening import open_event_database
from driftq.eventstore.seal.sealer import Sealer
from driftq.model.options.events import EventOptions
from driftq.pipeline.compaction import event_objects
from tests.harness import ServerProcess


def append(server: ServerProcess, first: int, count: int) -> None:
    events = [
        {
            "event_id": f"e{number}",
            "aggregate_type": "order",
            "aggregate_id": f"o-{number}",
            "event_type": "order.opened",
            "kind": "domain",
            "operation": "create",
            "payload": {"n": number, "share": 0.1 * number, "name": "Zoë"},
        }
        for number in range(first, first + count)
    ]
    answer = server.client().post("/v1/events", events)
    assert answer.status == 201, answer


def seal(server: ServerProcess, *, segment_events: int) -> None:
    """Stop the server, write everything into segments of this size, and start it again."""
    assert server.terminate(within_s=60.0) == 0
    options = EventOptions(folder=str(server.data))
    database = open_event_database(options)
    try:
        sealer = Sealer(
            database,
            event_objects(options),
            owner="test",
            options=SealOptions(segment_events_max=segment_events),
        )
        assert sealer.take(force=True)
        sealer.step(flush=True)
        sealer.release()
    finally:
        database.close()
    server.start()

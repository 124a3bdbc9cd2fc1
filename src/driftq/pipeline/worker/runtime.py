"""Setting up a run in one of Spark's processes: its database, its heartbeats, its event store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import msgspec

from driftq.model import Event
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.server import Server
from driftq.pipeline.worker.appending import DerivedAppends
from driftq.pipeline.worker.effect import Effects
from driftq.pipeline.worker.heartbeats import ClaimHeartbeats
from driftq.pipeline.worker.partition_run import PartitionRun
from driftq.pipeline.worker.spec import WorkerSpec
from driftq.pipeline.worker.store import shared_store
from driftq.pipeline.worker.timing import OutageWait, SystemTiming


class ServedEvents:
    """The event store of a server; it repeats an append after a lost response, which is safe."""

    def __init__(self, url: str) -> None:
        self._server = Server(url)

    def append_all(self, events: Sequence[tuple[Event, int | None]]) -> None:
        self._server.post("/v1/events", [_body(event) for event, _ in events], Any)

    def close(self) -> None:
        self._server.close()


@contextmanager
def open_run(spec: WorkerSpec, options: PipelineOptions) -> Iterator[PartitionRun]:
    """A run with its heartbeats started. While the database is unavailable, this waits."""
    timing = SystemTiming()
    outage_wait = OutageWait(timing)
    handler = spec.handler(options.registry)
    store = outage_wait.ask(lambda: shared_store(options, use="effects"))
    heartbeats = ClaimHeartbeats(
        lambda: shared_store(options, use="heartbeats").claims,
        every_ms=options.registry.heartbeat_seconds * 1000,
        timing=timing,
    )
    with closing(ServedEvents(options.url)) as event_store, heartbeats:
        appends = DerivedAppends(event_store, store.parking, handler.name, outage_wait)
        effects = Effects(spec.call, store, heartbeats=heartbeats, outage_wait=outage_wait, appends=appends)
        yield PartitionRun(
            handler,
            store,
            effects=effects,
            appends=appends,
            heartbeats=heartbeats,
            outage_wait=outage_wait,
            timing=timing,
        )


def _body(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return {name: value for name, value in fields.items() if value is not None or name == "payload"}

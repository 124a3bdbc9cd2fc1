"""Setting up a run in one of Spark's processes: its database, its heartbeats, its event store."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from typing import Any

import msgspec

from driftq.effects.sinks import HandlerSinks, SinkBindings
from driftq.model import Event
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.worker.appending import DerivedAppends, EventAppends
from driftq.pipeline.worker.effect import Effects
from driftq.pipeline.worker.heartbeats import ClaimHeartbeats
from driftq.pipeline.worker.marks import GatheredMarks
from driftq.pipeline.worker.spec import HandlerCall, WorkerSpec
from driftq.pipeline.worker.store import WorkerStore, shared_store
from driftq.pipeline.worker.task_run import TaskRun
from driftq.pipeline.worker.timing import OutageWait, SystemTiming, Timing
from driftq.registry import Handler
from driftq.transport.server import Server


class ServedEvents:
    """The event store of a server; it repeats an append after a lost response, which is safe."""

    def __init__(self, options: PipelineOptions) -> None:
        self._server = Server(options.url, credentials=options.credentials)

    def append_all(self, events: Sequence[tuple[Event, int | None]]) -> None:
        self._server.post("/v1/events", [_body(event) for event, _ in events], Any)

    def close(self) -> None:
        self._server.close()


@contextmanager
def open_run(spec: WorkerSpec, options: PipelineOptions, *, in_task: bool) -> Iterator[TaskRun]:
    """A run with its heartbeats started. While the database is unavailable, this waits.

    In a Spark task signals stop it in an orderly way. A driver ends without asking its threads, so there
    every effect is marked at once and not together with others.
    """
    timing = SystemTiming()
    with timing.stopped_by_signals() if in_task else nullcontext():
        store = OutageWait(timing).ask(lambda: shared_store(options, use="effects"))
        heartbeats = ClaimHeartbeats(
            lambda: shared_store(options, use="heartbeats").claims,
            every_ms=options.registry.heartbeat_seconds * 1000,
            timing=timing,
        )
        sinks = OutageWait(timing).ask(lambda: shared_sinks(spec.name, dict(spec.sinks)))
        with closing(ServedEvents(options)) as event_store, heartbeats:
            yield make_run(
                spec.handler(options.registry),
                spec.call,
                store,
                event_store=event_store,
                heartbeats=heartbeats,
                timing=timing,
                gathers=in_task,
                sinks=sinks,
            )


def make_run(
    handler: Handler,
    call: HandlerCall,
    store: WorkerStore,
    *,
    event_store: EventAppends,
    heartbeats: ClaimHeartbeats,
    timing: Timing,
    gathers: bool,
    sinks: HandlerSinks | None = None,
) -> TaskRun:
    """The parts of a run, put together."""
    outage_wait = OutageWait(timing)
    appends = DerivedAppends(event_store, store.derived, handler.name, outage_wait)
    marks = GatheredMarks(
        store,
        heartbeats=heartbeats,
        outage_wait=outage_wait,
        appends=appends,
        timing=timing,
        gathers=gathers,
    )
    effects = Effects(
        call,
        store,
        marks=marks,
        heartbeats=heartbeats,
        outage_wait=outage_wait,
        appends=appends,
        timing=timing,
        sinks=sinks or HandlerSinks({}),
    )
    return TaskRun(
        handler,
        store,
        effects=effects,
        marks=marks,
        appends=appends,
        heartbeats=heartbeats,
        outage_wait=outage_wait,
        timing=timing,
    )


_opened: dict[tuple[int, str], HandlerSinks] = {}


def shared_sinks(handler: str, bindings: SinkBindings) -> HandlerSinks:
    """The process's sinks of this handler, connected at the first call and kept for later tasks."""
    key = os.getpid(), handler
    known = _opened.get(key)
    if known is None or known.bindings != bindings:
        if known is not None:
            known.close()
        fresh = HandlerSinks(bindings)
        fresh.open()
        known = _opened[key] = fresh
        atexit.register(fresh.close)
    return known


def _body(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return {name: value for name, value in fields.items() if value is not None or name == "payload"}

"""Sinks that handlers write: single rows, each guarded by the sequence of its event.

A name is bound to a sink when the worker is made, and it is the name of the read model there:
`driftq pipeline rows NAME --sink URL` prints what handlers wrote. Repeated runs, late runs and runs of a
worker that has lost its lease change nothing, because a row is replaced only by one of a higher sequence.

While the target is away, a write waits, the lease is renewed, and no attempt is spent. What the target
refuses becomes a dead letter at once. Each thread that writes has a connection of its own; connections are
kept between messages.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple

import msgspec

from driftq.effects.run import EffectRun
from driftq.errors import InvalidArgument, ReadModelNotFound, Unavailable
from driftq.forking import in_forked_child, leave_behind
from driftq.model.backoff import doubled
from driftq.registry import Effect
from driftq.registry.verdict import Reject, Retry
from driftq.sinks import Change, GuardedReadModel, ReadModelSink, open_sink
from driftq.sinks.names import projection_name

logger = logging.getLogger("driftq.effects")

_FIRST_MS = 100
_LONGEST_MS = 5_000

SinkBindings = Mapping[str, "str | ReadModelSink"]
"""Sinks, or their addresses, by the name that handlers use."""
Wait = Callable[[int], None]
"""Waits so many milliseconds; raises when the worker stops meanwhile."""


def wait_ms(ms: int) -> None:
    """Wait where nothing asks the worker to stop."""
    time.sleep(ms / 1000)


class RowKey(NamedTuple):
    """The row that a handler writes by default, and the sequence that guards it."""

    aggregate_type: str
    aggregate_id: str
    sequence_number: int
    event_id: str


class SinkHandle:
    """A sink, for one run of a handler."""

    def __init__(self, bound: BoundSink, run: EffectRun, key: RowKey, wait: Wait) -> None:
        self._bound = bound
        self._run = run
        self._key = key
        self._wait = wait

    def upsert(self, state: Any, *, aggregate: tuple[str, str] | None = None) -> None:
        """Store the row's state, any JSON value, unless the row has a newer one.

        The row is that of the event's aggregate, or of the message's topic and key. Another `aggregate`,
        as type and id, is guarded by the same sequence: give only rows to it that no other aggregate or key
        writes. Raises Reject when the target refuses the row.
        """
        self._put(msgspec.json.encode(state).decode(), aggregate)

    def delete(self, *, aggregate: tuple[str, str] | None = None) -> None:
        """Remove the row, unless it is newer; its sequence stays, so that no older event restores it."""
        self._put(None, aggregate)

    def _put(self, state: str | None, aggregate: tuple[str, str] | None) -> None:
        key = self._key
        kind, aggregate_id = aggregate or (key.aggregate_type, key.aggregate_id)
        if not aggregate_id:
            raise Reject("the message has no key to name a row by: give aggregate=(type, id)")
        change = Change(kind, aggregate_id, key.sequence_number, key.event_id, state)
        pause_ms = _FIRST_MS
        while True:
            if self._run.lost:
                raise Retry("the lease is lost: another worker has the event")
            try:
                self._bound.put(change)
            except Unavailable as away:
                if pause_ms == _FIRST_MS:
                    logger.warning("%s waits for its sink %s: %s", self._run.handler, self._bound.name, away)
                self._wait(pause_ms)
                pause_ms = doubled(pause_ms, cap=_LONGEST_MS)
            else:
                return


class BoundSink:
    """One sink under its name, with the connections to it that are not in use."""

    def __init__(self, name: str, sink: ReadModelSink) -> None:
        self.name = projection_name(name)
        self.sink = sink
        self._idle: list[GuardedReadModel] = []
        self._closed = False
        self._lock = Lock()
        in_forked_child(self._forget)

    def open(self) -> None:
        """Raises an Unavailable, and InvalidArgument for a sink that handlers cannot write."""
        self._closed = False
        with self._model():
            pass

    def put(self, change: Change) -> None:
        """Raises an Unavailable, or Reject for a row that the target refuses."""
        with self._model() as model:
            try:
                try:
                    model.put([change])
                except ReadModelNotFound:
                    model.take_over()  # Nobody has it, so nobody is fenced.
                    model.put([change])
            except Unavailable:
                raise
            except Exception as refused:
                what = f"{type(refused).__name__}: {refused}"
                raise Reject(f"sink {self.name} in {model.address} refuses the row: {what}") from refused

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for model in idle:
            model.close()  # Those in use are closed when they are given back.

    @contextmanager
    def _model(self) -> Iterator[GuardedReadModel]:
        with self._lock:
            model = self._idle.pop() if self._idle else None
        if model is None:
            model = self._connect()
        broken = False
        try:
            yield model
        except Unavailable:
            broken = True  # The next write opens another connection.
            raise
        finally:
            self._give_back(model, broken=broken)

    def _give_back(self, model: GuardedReadModel, *, broken: bool) -> None:
        with self._lock:
            kept = not broken and not self._closed
            if kept:
                self._idle.append(model)
        if not kept:
            model.close()

    def _connect(self) -> GuardedReadModel:
        model = self.sink.connect(self.name)
        if not isinstance(model, GuardedReadModel):
            model.close()
            raise InvalidArgument(
                "sinks",
                f"{self.name} is a {type(self.sink).__name__}, and handlers cannot write to it: "
                "its read models have no `put`",
            )
        return model

    def _forget(self) -> None:
        leave_behind(*self._idle)
        self._idle = []
        self._lock = Lock()


class HandlerSinks:
    """The sinks of one worker's handlers. Raises InvalidArgument for a wrong name or address."""

    def __init__(self, bindings: SinkBindings) -> None:
        self.bindings = dict(bindings)
        self._bound = {
            name: BoundSink(name, open_sink(sink) if isinstance(sink, str) else sink)
            for name, sink in bindings.items()
        }

    def __bool__(self) -> bool:
        return bool(self._bound)

    def open(self) -> None:
        """Connect to each. Raises an Unavailable: a start fails here and not at the first message."""
        for bound in self._bound.values():
            bound.open()

    def handle(self, name: str, run: EffectRun, key: RowKey, wait: Wait) -> SinkHandle:
        """For one run of a handler. Raises Reject for an unknown name, or a handler that may not write."""
        bound = self._bound.get(name)
        if bound is None:
            known = ", ".join(self._bound) or "none"
            raise Reject(f"there is no sink {name!r}: the worker was made with {known}")
        require_idempotent(run.handler, run.effect)
        return SinkHandle(bound, run, key, wait)

    def close(self) -> None:
        for bound in self._bound.values():
            bound.close()


def require_idempotent(handler: str, effect: Effect) -> None:
    """Raise Reject unless a crash between a write and its mark may repeat the write."""
    if effect is not Effect.IDEMPOTENT:
        raise Reject(f"{handler} is declared {effect}: a handler that writes to sinks is declared idempotent")

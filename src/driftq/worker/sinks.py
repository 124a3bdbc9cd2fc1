"""The sinks of a worker's handlers: what a message writes by default, and waiting until the worker stops."""

from __future__ import annotations

import threading

import msgspec

from driftq.client import AsyncDelivery
from driftq.effects.sinks import HandlerSinks, RowKey, SinkBindings, SinkHandle
from driftq.registry.verdict import Released
from driftq.worker.context import Context

_EVENTS = "events."


class EventPlace(msgspec.Struct, frozen=True):
    """What is read of a published event."""

    event_id: str
    aggregate_type: str
    aggregate_id: str
    sequence_number: int


_decode_event = msgspec.json.Decoder(EventPlace).decode


class WorkerSinks:
    """The bound sinks of one worker, from its start to its end."""

    def __init__(self, bindings: SinkBindings) -> None:
        self._sinks = HandlerSinks(bindings)
        self._stopping = threading.Event()

    def __bool__(self) -> bool:
        return bool(self._sinks)

    def open(self) -> None:
        """Raises an Unavailable, and InvalidArgument for a sink that handlers cannot write."""
        self._stopping.clear()
        self._sinks.open()

    def stop(self) -> None:
        """Handlers that wait for a target give their messages back."""
        self._stopping.set()

    def close(self) -> None:
        self._sinks.close()

    def handle(self, name: str, delivery: AsyncDelivery, context: Context) -> SinkHandle:
        return self._sinks.handle(name, context, row_key(delivery), self._wait)

    def _wait(self, ms: int) -> None:
        if self._stopping.wait(ms / 1000):
            raise Released("the worker stops while a sink is away")


def row_key(delivery: AsyncDelivery) -> RowKey:
    """An event's aggregate and sequence; of any other message its topic, its key and its offset.

    Offsets count from 0 and sequences from 1. A key's messages are in one topic, whose offsets only grow.
    """
    if delivery.topic.startswith(_EVENTS):
        try:
            event = _decode_event(delivery.value)
        except (ValueError, RecursionError):
            pass  # A topic of the user's own with such a name.
        else:
            return RowKey(event.aggregate_type, event.aggregate_id, event.sequence_number, event.event_id)
    place = f"{delivery.topic}/{delivery.partition}/{delivery.offset}"
    return RowKey(delivery.topic, delivery.key, delivery.offset + 1, place)

"""`driftq.EventStore`: a server's event store from Python.

    store = driftq.EventStore("http://127.0.0.1:8080")
    store.append(driftq.Event(...), expected_seq=3)
    for event in store.read("order", "o-1"): ...

Appending again after a lost answer is safe, because the event_id is known then; so that is done by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import msgspec

from driftq.client.sync_client import Client
from driftq.client.wire import Query
from driftq.model import Event

_PAGE = 1000


class EventReceipt(msgspec.Struct, frozen=True):
    """Where an event is: stored now, or before when it is a duplicate."""

    event_id: str
    sequence_number: int
    duplicate: bool
    payload_mismatch: bool = False


class _Receipts(msgspec.Struct, frozen=True):
    results: list[EventReceipt]


class _Page(msgspec.Struct, frozen=True):
    events: list[Event]
    next_seq: int | None = None


class EventStore:
    """The event store of one server; any thread may use it."""

    def __init__(self, server: Client | str) -> None:
        """A client stays the caller's to close; for an address one is made, and closed by `close`."""
        self._owns_client = isinstance(server, str)
        self._client = Client(server) if isinstance(server, str) else server

    def append(self, event: Event, *, expected_seq: int | None = None) -> EventReceipt:
        """Append one event. Raises SequenceConflict when the aggregate is elsewhere, EventIdReused."""
        receipt: EventReceipt = self._post(_body(event, expected_seq), EventReceipt)
        return receipt

    def append_all(self, events: Sequence[tuple[Event, int | None]]) -> list[EventReceipt]:
        """Append events, each with its expected_seq or None; all or nothing for each aggregate.

        Raises the first refusal; events of other aggregates may then be stored, and to send all of them
        again is safe.
        """
        if not events:
            return []
        receipts: _Receipts = self._post([_body(*one) for one in events], _Receipts)
        return receipts.results

    def read(self, aggregate_type: str, aggregate_id: str, *, from_seq: int = 1) -> Iterator[Event]:
        """The events of one aggregate in sequence order, `from_seq` included."""
        following: int | None = from_seq
        while following is not None:
            query: Query = {
                "aggregate_type": aggregate_type,
                "aggregate_id": aggregate_id,
                "from_seq": following,
                "limit": _PAGE,
            }
            page: _Page = self._client.call("GET", "/v1/events", query=query, repeatable=True, kind=_Page)
            yield from page.events
            following = page.next_seq

    def log(self, *, from_position: int = 1) -> Iterator[Event]:
        """Events of all aggregates in log order, up to where the log ends now."""
        while True:
            page = self._client.call_lines(
                "/v1/events/log", query={"from": from_position, "limit": _PAGE}, kind=Event
            )
            yield from page
            if len(page) < _PAGE:
                return
            from_position += len(page)

    def close(self) -> None:
        """Close the client if it was made here."""
        if self._owns_client:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _post(self, body: Any, kind: Any) -> Any:
        return self._client.call("POST", "/v1/events", body=body, repeatable=True, kind=kind)


def _body(event: Event, expected_seq: int | None) -> dict[str, Any]:
    """What the server wants to know; what it fills in itself is left out."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name != "position"}
    fields["expected_seq"] = expected_seq
    return {name: value for name, value in fields.items() if value is not None or name == "payload"}

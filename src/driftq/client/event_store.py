"""`driftq.EventStore` and `driftq.AsyncEventStore`: a server's event store from Python.

    store = driftq.EventStore("http://127.0.0.1:8080")
    store.append(driftq.Event(...), expected_seq=3)
    for event in store.read("order", "o-1"): ...

Appending again after a lost answer is safe, because the event_id is known then; so that is done by itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Self

import msgspec

from driftq.client.async_client import AsyncClient
from driftq.client.sync_client import Client
from driftq.client.wire.encoding import Query
from driftq.model import Event
from driftq.model.wire.events import EventReceipt, EventReceipts

_PAGE = 1000
_EVENTS = "/v1/events"
_LOG = "/v1/events/log"


class _Page(msgspec.Struct, frozen=True):
    events: list[Event]
    next_seq: int | None = None


class AsyncEventStore:
    """The event store of one server, awaited; used on the event loop of its client."""

    def __init__(self, server: AsyncClient | str) -> None:
        """A client stays the caller's to close; for an address one is made, and closed by `close`."""
        self._owns_client = isinstance(server, str)
        self._client = AsyncClient(server) if isinstance(server, str) else server

    async def append(self, event: Event, *, expected_seq: int | None = None) -> EventReceipt:
        """Append one event. Raises SequenceConflict when the aggregate is elsewhere, EventIdReused."""
        receipt: EventReceipt = await self._post(_body(event, expected_seq), EventReceipt)
        return receipt

    async def append_all(self, events: Sequence[tuple[Event, int | None]]) -> list[EventReceipt]:
        """Append events, each with its expected_seq or None; all or nothing for each aggregate.

        Raises the first refusal; events of other aggregates may then be stored, and to send all of them
        again is safe.
        """
        if not events:
            return []
        receipts: EventReceipts = await self._post([_body(*one) for one in events], EventReceipts)
        return receipts.results

    async def read(
        self, aggregate_type: str, aggregate_id: str, *, from_seq: int = 1
    ) -> AsyncIterator[Event]:
        """The events of one aggregate in sequence order, `from_seq` included."""
        following: int | None = from_seq
        while following is not None:
            query = _page_of(aggregate_type, aggregate_id, following)
            page: _Page = await self._client.call("GET", _EVENTS, query=query, repeatable=True, kind=_Page)
            for event in page.events:
                yield event
            following = page.next_seq

    async def log(self, *, from_position: int = 1) -> AsyncIterator[Event]:
        """Events of all aggregates in log order, up to where the log ends now."""
        while True:
            query: Query = {"from": from_position, "limit": _PAGE}
            page = await self._client.call_lines(_LOG, query=query, kind=Event)
            for event in page:
                yield event
            if len(page) < _PAGE:
                return
            from_position += len(page)

    async def close(self) -> None:
        """Close the client if it was made here."""
        if self._owns_client:
            await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _post(self, body: Any, kind: Any) -> Any:
        return await self._client.call("POST", _EVENTS, body=body, repeatable=True, kind=kind)


class EventStore:
    """The event store of one server; any thread may use it."""

    def __init__(self, server: Client | str) -> None:
        """A client stays the caller's to close; for an address one is made, and closed by `close`."""
        self._owns_client = isinstance(server, str)
        self._client = Client(server) if isinstance(server, str) else server
        self._awaited = AsyncEventStore(self._client.awaited)

    def append(self, event: Event, *, expected_seq: int | None = None) -> EventReceipt:
        """Append one event. Raises SequenceConflict when the aggregate is elsewhere, EventIdReused."""
        return self._client.thread.run(self._awaited.append(event, expected_seq=expected_seq))

    def append_all(self, events: Sequence[tuple[Event, int | None]]) -> list[EventReceipt]:
        """Append events, each with its expected_seq or None; all or nothing for each aggregate.

        Raises the first refusal; events of other aggregates may then be stored, and to send all of them
        again is safe.
        """
        return self._client.thread.run(self._awaited.append_all(events))

    def read(self, aggregate_type: str, aggregate_id: str, *, from_seq: int = 1) -> Iterator[Event]:
        """The events of one aggregate in sequence order, `from_seq` included."""
        found = self._awaited.read(aggregate_type, aggregate_id, from_seq=from_seq)
        return self._client.thread.each(found)

    def log(self, *, from_position: int = 1) -> Iterator[Event]:
        """Events of all aggregates in log order, up to where the log ends now."""
        return self._client.thread.each(self._awaited.log(from_position=from_position))

    def close(self) -> None:
        """Close the client if it was made here."""
        if self._owns_client:
            self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _page_of(aggregate_type: str, aggregate_id: str, from_seq: int) -> Query:
    return {
        "aggregate_type": aggregate_type,
        "aggregate_id": aggregate_id,
        "from_seq": from_seq,
        "limit": _PAGE,
    }


def _body(event: Event, expected_seq: int | None) -> dict[str, Any]:
    """What the server wants to know; what it fills in itself is left out."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name != "position"}
    fields["expected_seq"] = expected_seq
    return {name: value for name, value in fields.items() if value is not None or name == "payload"}

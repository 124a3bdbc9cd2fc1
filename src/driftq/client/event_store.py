"""`driftq.AsyncEventStore`: a server's event store from Python.

    store = driftq.AsyncEventStore("http://127.0.0.1:8080")
    await store.append(driftq.Event(...), expected_seq=3)
    async for event in store.read("order", "o-1"): ...
    async for event in store.follow(group="mail"): ...

The client repeats an append whose response was lost. That is safe: the server recognises the event_id.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

import msgspec

from driftq.client.async_client import AsyncClient
from driftq.client.follower import AsyncEventFollower, Following
from driftq.client.wire.caller import is_stepping
from driftq.errors import EventStoreUnusable
from driftq.model import Event
from driftq.model.wire.events import EventReceipt, EventReceipts
from driftq.settings import load_settings
from driftq.telemetry.tracing import TRACEPARENT, current_traceparent
from driftq.transport.paths import Query

if TYPE_CHECKING:
    from driftq.eventstore.append.joined import JoinedAppends

_PAGE = 1000
_EVENTS = "/v1/events"
_LOG = "/v1/events/log"


class _Page(msgspec.Struct, frozen=True):
    events: list[Event]
    next_seq: int | None = None


class AsyncEventStore:
    """The event store of one server. Use it on one event loop, that of its client."""

    def __init__(self, server: AsyncClient | str) -> None:
        """`server` is a client, which the caller closes, or an address, whose client `close` closes."""
        self._owns_client = isinstance(server, str)
        self._client = AsyncClient(server) if isinstance(server, str) else server
        self._joined: JoinedAppends | None = None

    async def append(
        self, event: Event, *, expected_seq: int | None = None, transaction: Any = None
    ) -> EventReceipt:
        """Append one event. Raises EventIdReused, or SequenceConflict if `expected_seq` is wrong.

        `transaction` is a connection of psycopg, SQLAlchemy or Django to the PostgreSQL database that
        DRIFTQ_DATABASE_URL names: the event is stored and numbered only if the caller's transaction commits.
        Any other connection is refused; `driftq.outbox` works with those.
        """
        if transaction is not None:
            if is_stepping():
                return self._append_joined(event, expected_seq, transaction)
            return await asyncio.to_thread(self._append_joined, event, expected_seq, transaction)
        receipt: EventReceipt = await self._post(_body(event, expected_seq), EventReceipt)
        return receipt

    async def append_all(self, events: Sequence[tuple[Event, int | None]]) -> list[EventReceipt]:
        """Append events, each with its expected_seq or None; all or nothing for each aggregate.

        Raises the first error; events of other aggregates may be stored then. Repeating the call is safe.
        """
        if not events:
            return []
        receipts: EventReceipts = await self._post(
            [_body(event, expected_seq) for event, expected_seq in events], EventReceipts
        )
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
        """Events of all aggregates in log order, up to the present end of the log."""
        while True:
            query: Query = {"from": from_position, "limit": _PAGE}
            page = await self._client.call_lines(_LOG, query=query, kind=Event)
            for event in page:
                yield event
            if len(page) < _PAGE:
                return
            from_position = (page[-1].position or 0) + 1  # A tenant's log has gaps.

    def follow(
        self,
        *,
        group: str,
        aggregate_type: str | None = None,
        event_type: str | None = None,
        start: Literal["earliest", "latest"] = "earliest",
    ) -> AsyncEventFollower:
        """Events as they are appended, in log order, from the group's position on, for `async for`.

        An event is handled when the next one is asked for; the server keeps the position, and every event
        is seen at least once by the group, also when a follower is killed. A second follower of the group
        replaces the first, which raises FollowerReplaced. `start` is where a new group begins. A filter
        belongs to the group: what it leaves out counts as handled.
        """
        following = Following(group=group, aggregate_type=aggregate_type, event_type=event_type, start=start)
        return AsyncEventFollower(self._client, following)

    def _append_joined(self, event: Event, expected_seq: int | None, transaction: Any) -> EventReceipt:
        if self._joined is None:
            if importlib.util.find_spec("sqlalchemy") is None or importlib.util.find_spec("psycopg") is None:
                raise EventStoreUnusable("SQLAlchemy or psycopg is missing: install driftq[postgres]")
            from driftq.eventstore.append.joined import JoinedAppends

            self._joined = JoinedAppends(load_settings().events)
        stored = self._joined.append(event, expected_seq=expected_seq, transaction=transaction)
        return EventReceipt(
            event_id=stored.event_id,
            sequence_number=stored.sequence_number,
            duplicate=stored.duplicate,
            payload_mismatch=stored.payload_mismatch,
        )

    async def close(self) -> None:
        """Close the client if this store made it."""
        if self._joined is not None:
            self._joined.close()
            self._joined = None
        if self._owns_client:
            await self._client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _post(self, body: Any, kind: Any) -> Any:
        return await self._client.call("POST", _EVENTS, body=body, repeatable=True, kind=kind)


def _page_of(aggregate_type: str, aggregate_id: str, from_seq: int) -> Query:
    return {
        "aggregate_type": aggregate_type,
        "aggregate_id": aggregate_id,
        "from_seq": from_seq,
        "limit": _PAGE,
    }


def _body(event: Event, expected_seq: int | None) -> dict[str, Any]:
    """The fields that the server expects; those that it assigns are left out."""
    fields = {name: getattr(event, name) for name in event.__struct_fields__ if name != "position"}
    fields["expected_seq"] = expected_seq
    traceparent = current_traceparent()
    if traceparent is not None:
        fields["metadata"] = {TRACEPARENT: traceparent, **event.metadata}
    return {name: value for name, value in fields.items() if value is not None or name == "payload"}

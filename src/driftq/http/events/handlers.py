"""The event store over HTTP: append, read an aggregate, read the log, and wait for its next event.

The store's thread encodes the replies to reads, so that a long page costs the event loop nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec import UNSET

from driftq.core.state import State
from driftq.errors import DriftQError, EventStoreUnusable, InvalidArgument
from driftq.http.api.params import Form, body_problem
from driftq.http.api.tenancy import NamedThing, type_thing
from driftq.http.wire.exchange import NDJSON, Exchange, count_refusals, error_fields
from driftq.model.event import Event, Operation
from driftq.model.wire.events import (
    AggregateQuery,
    EventBody,
    EventLine,
    EventReceipt,
    EventReceipts,
    EventsReply,
    FollowBody,
    LogEndReply,
    LogQuery,
)
from driftq.model.wire.fields import Request
from driftq.server.events.service import EventAppendRequest, EventQueryRequest, EventsService
from driftq.server.events.waiting import EventWaitRequest
from driftq.server.histograms import stopwatch
from driftq.telemetry.tracing import TRACEPARENT

if TYPE_CHECKING:
    from driftq.eventstore import Appended, EventFilter, EventStore, LogPage, Refused, StoredPage

AGGREGATE = Form(AggregateQuery)
LOG = Form(LogQuery)
NOTHING = Form(Request)
PAGE_EVENTS = 1000
EVENTS_MAX = 10_000
"""Events in one request."""

_bodies: msgspec.json.Decoder[EventBody | list[EventBody]] = msgspec.json.Decoder(EventBody | list[EventBody])
_encoder = msgspec.json.Encoder()


def append(exchange: Exchange) -> None:
    asked = _read(exchange)
    events = asked if isinstance(asked, list) else [asked]
    if not events:
        raise InvalidArgument("", "the list of events is empty")
    if len(events) > EVENTS_MAX:
        raise InvalidArgument("", f"at most {EVENTS_MAX} events can be appended at once")
    give = partial(_appended_all if isinstance(asked, list) else _appended_one, exchange, stopwatch())
    commands = [(_to_event(body, exchange.traceparent), body.expected_seq) for body in events]
    events_service(exchange).append(EventAppendRequest(commands, replying(exchange, give)))


def _read(exchange: Exchange) -> EventBody | list[EventBody]:
    NOTHING.check_query(exchange.query)
    if not exchange.body:
        raise InvalidArgument("", "the body must be an event, or a list of events")
    try:
        return _bodies.decode(exchange.body)
    except (ValueError, RecursionError) as error:
        raise body_problem(error) from None


def types_appended(exchange: Exchange) -> Iterator[NamedThing]:
    """The aggregate types of all events of a request."""
    asked = _read(exchange)
    for name in {event.aggregate_type for event in (asked if isinstance(asked, list) else [asked])}:
        yield type_thing(name)


def _to_event(body: EventBody, traceparent: str | None) -> Event:
    """The header's trace is kept in the metadata, unless the event names one itself."""
    metadata = body.metadata or {}
    if traceparent is not None:
        metadata = {TRACEPARENT: traceparent, **metadata}
    return Event(
        event_id=body.event_id,
        aggregate_type=body.aggregate_type,
        aggregate_id=body.aggregate_id,
        event_type=body.event_type,
        payload=body.payload,
        kind=body.kind,
        operation=Operation(body.operation),
        sequence_number=body.sequence_number,
        occurred_at=body.occurred_at,
        metadata=metadata,
        schema_version=1 if body.schema_version is None else body.schema_version,
    )


def _appended_one(exchange: Exchange, since: float, outcomes: list[Appended | Refused]) -> None:
    result = _result(outcomes[0])
    _count(exchange, since, [result])
    if isinstance(result, DriftQError):
        exchange.reply_error(result)
    else:
        exchange.reply_json(result, status=200 if result.duplicate else 201)


def _appended_all(exchange: Exchange, since: float, outcomes: list[Appended | Refused]) -> None:
    """201 when an event is new, 200 when all were there; an error sets the status of the whole reply."""
    results = [_result(answer) for answer in outcomes]
    _count(exchange, since, results)
    refusals = [result for result in results if isinstance(result, DriftQError)]
    if not refusals:
        receipts = [result for result in results if isinstance(result, EventReceipt)]
        fresh = not all(receipt.duplicate for receipt in receipts)
        exchange.reply_json(EventReceipts(len(receipts), 0, receipts), status=201 if fresh else 200)
        return
    count_refusals(exchange, refusals)
    body = error_fields(refusals[0]) | {
        "appended": len(results) - len(refusals),
        "failed": len(refusals),
        "results": [
            {"event_id": answer.event_id} | error_fields(result)
            if isinstance(result, DriftQError)
            else result
            for answer, result in zip(outcomes, results, strict=True)
        ],
    }
    exchange.reply_json(body, status=refusals[0].status)


def _count(exchange: Exchange, since: float, results: list[EventReceipt | DriftQError]) -> None:
    counters = exchange.edge.counters
    for result in results:
        if isinstance(result, DriftQError):
            counters.events_refused += 1
        elif result.duplicate:
            counters.event_duplicates += 1
        else:
            counters.events_appended += 1
    counters.histograms.event_append_seconds.observe(stopwatch() - since)


def _result(answer: Appended | Refused) -> EventReceipt | DriftQError:
    from driftq.eventstore import Refused

    if isinstance(answer, Refused):
        return answer.error
    return EventReceipt(
        answer.event_id,
        answer.sequence_number,
        duplicate=answer.duplicate,
        payload_mismatch=answer.payload_mismatch,
    )


def aggregate(exchange: Exchange) -> None:
    asked = AGGREGATE.read(exchange.body, exchange.query)

    def query(store: EventStore) -> bytes:
        page = store.read_aggregate(
            asked.aggregate_type,
            asked.aggregate_id,
            from_seq=1 if asked.from_seq is None else asked.from_seq,
            limit=PAGE_EVENTS if asked.limit is None else asked.limit,
        )
        next_seq = UNSET if page.next_seq is None else page.next_seq
        return _encoder.encode(EventsReply([EventLine.of(event) for event in page.events], next_seq))

    events_service(exchange).read(EventQueryRequest(query, replying(exchange, exchange.reply_ok)))


def own_types(state: State, tenant: str) -> list[str]:
    return [name for name, owner in state.owners.aggregate_types.items() if owner == tenant]


class _Lines(NamedTuple):
    body: bytes
    next_position: int


def log(exchange: Exchange) -> None:
    asked = LOG.read(exchange.body, exchange.query)
    position = 1 if asked.from_ is None else asked.from_
    limit = PAGE_EVENTS if asked.limit is None else asked.limit
    wanted = wanted_events(exchange, asked)

    def query(store: EventStore, final: bool) -> _Lines | None:
        nonlocal position
        page: LogPage | StoredPage = (
            store.read_stored(from_position=position, limit=limit, wanted=wanted)
            if asked.stored
            else store.read_log(from_position=position, limit=limit, wanted=wanted)
        )
        position = page.next_position
        if not final and is_at_end(store, page):
            return None
        lines = [EventLine.of(event) if isinstance(event, Event) else event for event in page.events]
        return _Lines(_encoder.encode_lines(lines), position)

    def send(lines: _Lines) -> None:
        extra = b"DriftQ-Next-Position: %d\r\n" % lines.next_position
        exchange.reply(exchange.edge.heads.whole(200, lines.body, content_type=NDJSON, extra=extra))

    read_waiting(exchange, query, send, wait_ms=asked.wait_ms)


def log_end(exchange: Exchange) -> None:
    NOTHING.read(exchange.body, exchange.query)
    instance = exchange.edge.options.instance

    def query(store: EventStore) -> LogEndReply:
        return LogEndReply(store.log_end(), instance)

    events_service(exchange).read(
        EventQueryRequest(query, replying(exchange, exchange.reply_json), placed=True)
    )


def events_service(exchange: Exchange) -> EventsService:
    service = exchange.edge.broker.events
    if service is None:
        raise EventStoreUnusable("this broker was opened without an event store")
    return service


def replying(exchange: Exchange, give: Callable[[Any], None]) -> Callable[[Any], None]:
    """A callback for the store's thread, which may also pass on an unexpected error."""
    answering = exchange.answering(give)

    def reply(result: Any) -> None:
        if isinstance(result, Exception) and not isinstance(result, DriftQError):
            exchange.failed(result)
        else:
            answering(result)

    return reply


def read_waiting(exchange: Exchange, query: Any, send: Any, *, wait_ms: int | None) -> None:
    def give(result: Any) -> None:
        exchange.on_lost = None
        send(result)

    request = EventWaitRequest(query, replying(exchange, give), wait_ms or 0)
    withdraw = events_service(exchange).wait(request)
    if wait_ms:
        exchange.on_lost = withdraw


def is_at_end(store: EventStore, page: LogPage | StoredPage) -> bool:
    """Nothing was found, and nothing is left to look at."""
    return not page.events and page.next_position > store.log_end()


def wanted_events(exchange: Exchange, asked: LogQuery | FollowBody) -> EventFilter:
    from driftq.eventstore import EventFilter  # Only where the extra is installed.

    tenant = exchange.tenant
    types = None if tenant is None else tuple(own_types(exchange.edge.engine.state, tenant))
    return EventFilter(asked.aggregate_type, asked.event_type, types)

"""The routes of the event store."""

from driftq.http.api.route import PRODUCE, READ, ResponseSpec, Route
from driftq.http.api.tenancy import OWN, SHARED, Tenancy, aggregate_type_in
from driftq.http.events import handlers as events
from driftq.model.wire.events import (
    AggregateQuery,
    EventBody,
    EventLine,
    EventReceipt,
    EventReceipts,
    EventsReply,
    LogEndReply,
    LogQuery,
)

EVENT_ROUTES = (
    Route(
        method="POST",
        path="/v1/events",
        handler=events.append,
        roles=PRODUCE,
        tenants=Tenancy(names=events.types_appended, makes=True),
        summary="Append an event to its aggregate, or a list of events",
        body=EventBody | list[EventBody],
        responses={
            200: ResponseSpec(text="All events were stored already", body=(EventReceipt, EventReceipts)),
            201: ResponseSpec(text="Appended", body=(EventReceipt, EventReceipts)),
        },
        errors=(409,),
        notes="A list is all or nothing for each aggregate. When some events are refused, the reply has the "
        "status of the first error and `results` for each event; sending the list again is safe.",
    ),
    Route(
        method="GET",
        path="/v1/events",
        handler=events.aggregate,
        roles=READ,
        tenants=Tenancy(names=aggregate_type_in(AggregateQuery)),
        summary="The events of one aggregate, in sequence order",
        query=AggregateQuery,
        responses={200: ResponseSpec(text="From `from_seq` on", body=EventsReply)},
    ),
    Route(
        method="GET",
        path="/v1/events/log",
        handler=events.log,
        roles=READ,
        tenants=OWN,
        summary="Events of all aggregates, in log order",
        query=LogQuery,
        responses={
            200: ResponseSpec(
                text="One a line, from position `from` on",
                body=EventLine,
                content_type="application/x-ndjson",
            )
        },
    ),
    Route(
        method="GET",
        path="/v1/events/log/end",
        handler=events.log_end,
        roles=READ,
        tenants=SHARED,
        summary="The end of the event log",
        responses={200: ResponseSpec(text="The last position", body=LogEndReply)},
    ),
)

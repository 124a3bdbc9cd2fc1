"""The routes of the event store."""

from driftq.http.api.route import ADMIN, CONSUME, PRODUCE, READ, ResponseSpec, Route
from driftq.http.api.tenancy import OWN, SHARED, Tenancy, aggregate_type_in
from driftq.http.events import following
from driftq.http.events import handlers as events
from driftq.model.wire.events import (
    AggregateQuery,
    EventBody,
    EventLine,
    EventReceipt,
    EventReceipts,
    EventsReply,
    FollowBody,
    FollowerReply,
    FollowersReply,
    FollowReply,
    LogEndReply,
    LogQuery,
    MoveFollowerBody,
    OpenFollowerBody,
)
from driftq.model.wire.fields import PageQuery

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
        notes="With `wait_ms` the reply comes when there is an event, or none in that time. The header "
        "`DriftQ-Next-Position` is where to read on: behind all that was looked at, wanted or not. A reply "
        "without events may come early when a filter has left out many.",
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
    Route(
        method="GET",
        path="/v1/events/groups",
        handler=following.list_groups,
        roles=READ,
        summary="Groups that follow the event log",
        query=PageQuery,
        responses={200: ResponseSpec(text="With their positions", body=FollowersReply)},
    ),
    Route(
        method="POST",
        path="/v1/events/groups/{group}",
        handler=following.open_group,
        roles=CONSUME,
        summary="Follow the event log as a group",
        body=OpenFollowerBody,
        responses={200: ResponseSpec(text="The group is this caller's", body=FollowerReply)},
        notes="Every earlier follower of the group is refused from now on.",
    ),
    Route(
        method="DELETE",
        path="/v1/events/groups/{group}",
        handler=following.delete_group,
        roles=ADMIN,
        summary="Delete a group that follows the event log, with its position",
        responses={204: ResponseSpec(text="Deleted")},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/events/groups/{group}/read",
        handler=following.read_on,
        roles=CONSUME,
        summary="The next events of a group",
        body=FollowBody,
        responses={200: ResponseSpec(text="In log order", body=FollowReply)},
        errors=(404, 409),
        notes="Reading moves nothing: `position` says what is handled, and the next events begin after it.",
    ),
    Route(
        method="POST",
        path="/v1/events/groups/{group}/position",
        handler=following.move_group,
        roles=CONSUME,
        summary="Move the position of a group",
        body=MoveFollowerBody,
        responses={204: ResponseSpec(text="Everything up to the position is handled")},
        errors=(404, 409),
    ),
)

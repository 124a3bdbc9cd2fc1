"""The routes of queues."""

from driftq.http.api.route import ADMIN, READ, ResponseSpec, Route
from driftq.http.api.tenancy import OWN, Tenancy
from driftq.http.queues import handlers as queues
from driftq.model.wire.queues import QueueReply, QueuesQuery, QueuesReply, SetLimitsBody

QUEUE_ROUTES = (
    Route(
        method="GET",
        path="/v1/queues",
        handler=queues.list_all,
        roles=READ,
        tenants=OWN,
        summary="List queues with their jobs, limits and pauses",
        query=QueuesQuery,
        responses={200: ResponseSpec(text="A page of queues, by name", body=QueuesReply)},
    ),
    Route(
        method="PUT",
        path="/v1/queues/{queue}/limits",
        handler=queues.limit,
        roles=ADMIN,
        tenants=Tenancy(names=queues.queue_in_path, makes=True),
        summary="Limit the jobs of a queue that run at once or start in a time",
        query=SetLimitsBody,
        body=SetLimitsBody,
        responses={200: ResponseSpec(text="These limits hold from now on, and no others", body=QueueReply)},
        errors=(404, 409),
        notes="`per_key` limits each limit key of the queue. An empty object removes all limits. "
        "`tenant` gives a queue that nobody owns to a tenant.",
    ),
    Route(
        method="POST",
        path="/v1/queues/{queue}/pause",
        handler=queues.pause,
        roles=ADMIN,
        summary="Pause a queue: it accepts jobs, and no worker gets one",
        responses={200: ResponseSpec(text="It is paused", body=QueueReply)},
    ),
    Route(
        method="POST",
        path="/v1/queues/{queue}/resume",
        handler=queues.resume,
        roles=ADMIN,
        summary="Resume a paused queue",
        responses={200: ResponseSpec(text="It is not paused", body=QueueReply)},
    ),
)

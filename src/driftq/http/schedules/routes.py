"""The routes of schedules."""

from driftq.http.api.route import ADMIN, PRODUCE, READ, ResponseSpec, Route
from driftq.http.api.tenancy import OWN
from driftq.http.schedules import handlers as schedules
from driftq.http.schedules.tenants import OF_NAMED, setting
from driftq.model.wire.jobs import EnqueuedJob
from driftq.model.wire.queues import (
    QueuesQuery,
    RemovedSchedule,
    ReplaceScheduleBody,
    ScheduleBody,
    SchedulesReply,
    ScheduleView,
)

SCHEDULE_ROUTES = (
    Route(
        method="POST",
        path="/v1/schedules",
        handler=schedules.create,
        roles=ADMIN,
        summary="Create a schedule",
        query=ScheduleBody,
        body=ScheduleBody,
        tenants=setting(ScheduleBody, schedules.name_in_body),
        responses={
            201: ResponseSpec(text="The schedule is durable", body=ScheduleView),
            200: ResponseSpec(text="It exists already with the same content", body=ScheduleView),
        },
        errors=(409,),
        notes="`cron` has five fields, or six with the second first. Other content under one name is a 409.",
    ),
    Route(
        method="GET",
        path="/v1/schedules",
        handler=schedules.list_all,
        roles=READ,
        summary="List schedules, by name",
        query=QueuesQuery,
        tenants=OWN,
        responses={200: ResponseSpec(text="A page of schedules", body=SchedulesReply)},
    ),
    Route(
        method="GET",
        path="/v1/schedules/{name}",
        handler=schedules.show,
        roles=READ,
        summary="A schedule, its latest fire and its next one",
        tenants=OF_NAMED,
        responses={200: ResponseSpec(text="The durable state", body=ScheduleView)},
        errors=(404,),
    ),
    Route(
        method="PUT",
        path="/v1/schedules/{name}",
        handler=schedules.replace,
        roles=ADMIN,
        summary="Create or replace a schedule",
        query=ReplaceScheduleBody,
        body=ReplaceScheduleBody,
        tenants=setting(ReplaceScheduleBody, schedules.name_in_path),
        responses={
            200: ResponseSpec(text="It has this content from now on", body=ScheduleView),
            201: ResponseSpec(text="The schedule is new", body=ScheduleView),
        },
        notes="Fire times that have been dealt with are not repeated.",
    ),
    Route(
        method="DELETE",
        path="/v1/schedules/{name}",
        handler=schedules.remove,
        roles=ADMIN,
        summary="Remove a schedule; its jobs stay",
        tenants=OF_NAMED,
        responses={200: ResponseSpec(text="It does not fire any more", body=RemovedSchedule)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/schedules/{name}/pause",
        handler=schedules.pause,
        roles=ADMIN,
        summary="Pause a schedule",
        tenants=OF_NAMED,
        responses={200: ResponseSpec(text="It is paused", body=ScheduleView)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/schedules/{name}/resume",
        handler=schedules.resume,
        roles=ADMIN,
        summary="Resume a schedule with its next fire time",
        tenants=OF_NAMED,
        responses={200: ResponseSpec(text="It is not paused", body=ScheduleView)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/schedules/{name}/run",
        handler=schedules.run,
        roles=PRODUCE,
        summary="Enqueue a schedule's job now, besides its fires",
        tenants=OF_NAMED,
        responses={201: ResponseSpec(text="The job is durable", body=EnqueuedJob)},
        errors=(404,),
    ),
)

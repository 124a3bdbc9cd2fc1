"""The routes of jobs."""

from driftq.http.api.route import ResponseSpec, Route
from driftq.http.jobs import handlers as jobs
from driftq.http.jobs import show as job_showing
from driftq.model.wire.jobs import (
    ClaimBody,
    ClaimReply,
    CompleteBody,
    EnqueuedJob,
    FailBody,
    HeartbeatBody,
    JobBody,
    JobReply,
    JobsQuery,
    JobsReply,
    JobView,
    SettleBody,
    SettleReply,
)

_ENQUEUED = EnqueuedJob
_JOB = JobReply

JOB_ROUTES = (
    Route(
        method="POST",
        path="/v1/jobs",
        handler=jobs.enqueue,
        summary="Enqueue a job",
        query=JobBody,
        body=JobBody,
        responses={
            201: ResponseSpec(text="It is durable", body=_ENQUEUED),
            200: ResponseSpec(text="A job with this idempotency key is there already", body=_ENQUEUED),
        },
    ),
    Route(
        method="GET",
        path="/v1/jobs",
        handler=jobs.list_all,
        summary="List jobs, oldest first",
        query=JobsQuery,
        responses={200: ResponseSpec(text="Part of the list", body=JobsReply)},
        notes="`state=dead` are the jobs that were given up. What is large comes in more parts.",
    ),
    Route(
        method="POST",
        path="/v1/jobs/claim",
        handler=jobs.claim,
        summary="Take the next jobs of some queues",
        query=ClaimBody,
        body=ClaimBody,
        responses={200: ResponseSpec(text="Jobs with their leases, or none", body=ClaimReply)},
    ),
    Route(
        method="POST",
        path="/v1/jobs/settle",
        handler=jobs.settle,
        summary="Complete and fail many jobs",
        query=SettleBody,
        body=SettleBody,
        responses={200: ResponseSpec(text="A result for each, in order", body=SettleReply)},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{job_id}",
        handler=job_showing.show,
        summary="Everything that is known of a job",
        responses={200: ResponseSpec(text="As it is on disk", body=JobView)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}/heartbeat",
        handler=jobs.beat,
        summary="Still working: the lease starts over",
        query=HeartbeatBody,
        body=HeartbeatBody,
        responses={204: ResponseSpec(text="Extended")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}/complete",
        handler=jobs.complete,
        summary="The job is done",
        query=CompleteBody,
        body=CompleteBody,
        responses={204: ResponseSpec(text="Done, now or before under the same token")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}/fail",
        handler=jobs.fail,
        summary="The attempt failed: retry it later, or give it up",
        query=FailBody,
        body=FailBody,
        responses={204: ResponseSpec(text="Noted")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}/cancel",
        handler=jobs.cancel_job,
        summary="Give a job up",
        responses={200: ResponseSpec(text="It is dead", body=_JOB)},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}/requeue",
        handler=jobs.requeue_job,
        summary="Try a dead job again, from its first attempt",
        responses={200: ResponseSpec(text="It is ready", body=_JOB)},
        errors=(404, 409),
    ),
)

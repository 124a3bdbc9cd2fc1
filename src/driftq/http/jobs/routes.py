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
            201: ResponseSpec(text="The job is durable", body=_ENQUEUED),
            200: ResponseSpec(text="A job with this idempotency key exists already", body=_ENQUEUED),
        },
    ),
    Route(
        method="GET",
        path="/v1/jobs",
        handler=jobs.list_all,
        summary="List jobs, oldest first",
        query=JobsQuery,
        responses={200: ResponseSpec(text="A page of jobs", body=JobsReply)},
        notes="`state=dead` lists the jobs that were given up. A long list comes in pages.",
    ),
    Route(
        method="POST",
        path="/v1/jobs/claim",
        handler=jobs.claim,
        summary="Claim the next jobs of some queues",
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
        summary="A job with its runs",
        responses={200: ResponseSpec(text="The durable state", body=JobView)},
        errors=(404,),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}/heartbeat",
        handler=jobs.beat,
        summary="Renew the lease on a job",
        query=HeartbeatBody,
        body=HeartbeatBody,
        responses={204: ResponseSpec(text="Extended")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}/complete",
        handler=jobs.complete,
        summary="Complete a job",
        query=CompleteBody,
        body=CompleteBody,
        responses={204: ResponseSpec(text="Done, now or before under the same token")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}/fail",
        handler=jobs.fail,
        summary="Fail an attempt: retry it later, or give the job up",
        query=FailBody,
        body=FailBody,
        responses={204: ResponseSpec(text="Noted")},
        errors=(404, 409),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}/cancel",
        handler=jobs.cancel_job,
        summary="Cancel a job",
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

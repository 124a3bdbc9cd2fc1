"""The routes of the pipeline's reports."""

from driftq.access.keys import Role
from driftq.http.api.route import READ, ResponseSpec, Route
from driftq.http.pipelines import handlers as pipelines
from driftq.model.wire.pipelines import PipelineReport, PipelinesQuery, PipelinesReply

PIPELINE_ROUTES = (
    Route(
        method="GET",
        path="/v1/pipelines",
        handler=pipelines.list_pipelines,
        roles=READ,
        summary="List the jobs of the pipeline with their last report",
        query=PipelinesQuery,
        responses={200: ResponseSpec(text="Jobs by name", body=PipelinesReply)},
        notes="A job that should run and has not reported for 30 seconds is `silent`.",
    ),
    Route(
        method="POST",
        path="/v1/pipelines/{name}/progress",
        handler=pipelines.report_progress,
        roles=(Role.PRODUCE, Role.CONSUME),
        summary="Report the progress of a job of the pipeline",
        body=PipelineReport,
        responses={204: ResponseSpec(text="Kept as the newest report of the job")},
        notes="The server keeps one report for each of at most 512 jobs, also over a restart.",
    ),
)

"""What is looked at before Spark is started, because Spark takes long to start and is of no use without it.

A job may say that it `needs_server`, and may have a `check` of its own for its database. Both are optional: a
job of a user's that reads something else needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from driftq.errors import ServerUnreachable
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.app.builtin import Job
from driftq.pipeline.server import Server

_PATIENCE_S = 0.5
_ANSWER_S = 5.0


def check_reach(jobs: Sequence[Job], options: PipelineOptions) -> None:
    """Raise what would keep these jobs from starting: ServerUnreachable, DatabaseUnavailable, SchemaOutdated.

    It says so within a second or two. A run that goes on later waits for its server patiently.
    """
    if any(getattr(job, "needs_server", False) for job in jobs):
        check_server(options.url)
    for job in jobs:
        check = getattr(job, "check", None)
        if check is not None:
            check()


def check_server(url: str) -> None:
    """Raise ServerUnreachable, in words that say what to do."""
    server = Server(url, patience_s=_PATIENCE_S, answer_s=_ANSWER_S)
    try:
        server.content("/v1/healthz")
    except ServerUnreachable as away:
        raise ServerUnreachable(
            url, cause=f"{away.cause}; start it with driftq serve, or say --url"
        ) from None
    finally:
        server.close()

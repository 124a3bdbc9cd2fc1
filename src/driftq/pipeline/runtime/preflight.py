"""Checks before Spark starts, because Spark takes long to start and is useless if they fail.

A job may declare that it `needs_server`, and may have a `check` of its own for its database. Both are
optional: a user's job that reads another source needs neither.
"""

from __future__ import annotations

from collections.abc import Sequence

from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.app.builtin import Job
from driftq.transport.server import check_server


def check_reach(jobs: Sequence[Job], options: PipelineOptions) -> None:
    """Raise the error that would keep these jobs from starting: ServerUnreachable or one of the database.

    This takes a second or two. A running job later waits for its server.
    """
    if any(getattr(job, "needs_server", False) for job in jobs):
        check_server(options.url, options.credentials)
    for job in jobs:
        check = getattr(job, "check", None)
        if check is not None:
            check()

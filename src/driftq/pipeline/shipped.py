"""From the names on a command line to jobs: the shipped ones, and those of a user's app."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard

from driftq.core.pipeline_options import PipelineOptions
from driftq.errors import InvalidArgument
from driftq.pipeline.app import App
from driftq.pipeline.job import BatchJob, StreamJob

Job = StreamJob | BatchJob


def is_stream(job: Job) -> TypeGuard[StreamJob]:
    """It goes on until it is stopped, unless told to do what is there."""
    return hasattr(job, "start")


def is_batch(job: Job) -> TypeGuard[BatchJob]:
    """It comes to an end by itself."""
    return not is_stream(job)


def jobs_for(
    what: Sequence[str], options: PipelineOptions, *, app: App | None, name: str | None
) -> list[Job]:
    """The jobs of a run, in the order in which they were named; raises InvalidArgument."""
    return [job for one in what for job in _MAKERS[one](options, app, name)]


def jobs_of_app(app: App, options: PipelineOptions, *, name: str | None) -> list[Job]:
    """Everything a user registered: workers first, then projections."""
    known = [spec.name for spec in app.workers] + [one.name for one in app.projections]
    if name is not None and name not in known:
        raise InvalidArgument("--name", f"{name!r} is neither a handler nor a projection: {', '.join(known)}")
    return [one.job(options) for one in app.projections if name in (None, one.name)]


_MAKERS: dict[str, Callable[[PipelineOptions, App | None, str | None], list[Job]]] = {}
SHIPPED = tuple(_MAKERS)

"""From the names on a command line to jobs: the built-in ones, and those of a user's app."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeGuard

from driftq.errors import InvalidArgument
from driftq.model.options.pipeline import PipelineOptions
from driftq.pipeline.app.app import App, RunsAsJob
from driftq.pipeline.app.file import load_app_file
from driftq.pipeline.bridge.route import BridgeRoute
from driftq.pipeline.runtime.job import BatchJob, StreamJob

if TYPE_CHECKING:
    from driftq.sinks import ReadModelSink

Job = StreamJob | BatchJob


def is_stream(job: Job) -> TypeGuard[StreamJob]:
    """It runs until it is stopped, unless it is run with `once`."""
    return hasattr(job, "start")


def is_batch(job: Job) -> TypeGuard[BatchJob]:
    """It ends when its work is done."""
    return not is_stream(job)


def jobs_for(
    what: Sequence[str],
    options: PipelineOptions,
    *,
    app: App | None,
    name: str | None,
    route: BridgeRoute | None = None,
) -> list[Job]:
    """The jobs of a run, in the order in which they were named; raises InvalidArgument."""
    return [
        job
        for one in what
        for job in (_bridge(options, route) if one == BRIDGE else _MAKERS[one](options, app, name))
    ]


def jobs_of_app(app: App, options: PipelineOptions, *, name: str | None) -> list[Job]:
    """Everything a user registered: workers first, then projections."""
    workers = [spec.name for spec in app.workers if name in (None, spec.name)]
    projections = [one for one in app.projections if name in (None, one.name)]
    if not workers and not projections:
        known = [*(spec.name for spec in app.workers), *(one.name for one in app.projections)]
        raise _unknown("handler or projection", name, known)
    found = _workers(options, app, name) if workers else []
    return [*found, *(one.job(options) for one in projections)]


def chosen_projections(app: App | None, name: str | None) -> list[RunsAsJob]:
    """Those of the app, or the built-in one where the app has none; one of them if a name is given."""
    from driftq.pipeline.projection.definition import LATEST

    own: list[RunsAsJob] = [] if app is None else list(app.projections)
    found = [one for one in own or [LATEST] if name in (None, one.name)]
    if not found:
        raise _unknown("projection", name, [one.name for one in own or [LATEST]])
    return found


def sink_of(file: str, name: str, options: PipelineOptions) -> ReadModelSink:
    """The sink of the projection of that name in a user's file; the first of several."""
    app = load_app_file(file).require_app()
    projection: Any = chosen_projections(app, name)[0]
    sinks: Sequence[ReadModelSink] = projection.targets(options)
    return sinks[0]


def _publisher(options: PipelineOptions, app: App | None, name: str | None) -> list[Job]:
    from driftq.pipeline.publisher.job import Publisher

    return [Publisher(options)]


def _workers(options: PipelineOptions, app: App | None, name: str | None) -> list[Job]:
    from driftq.pipeline.worker.job import WorkerJob

    if app is None or not app.workers:
        raise InvalidArgument("--app", "a worker needs a file with handlers")
    found = [spec for spec in app.workers if name in (None, spec.name)]
    if not found:
        raise _unknown("handler", name, [spec.name for spec in app.workers])
    return [WorkerJob(spec, options) for spec in found]


def _projections(options: PipelineOptions, app: App | None, name: str | None) -> list[Job]:
    return [one.job(options) for one in chosen_projections(app, name)]


def _rebuilds(options: PipelineOptions, app: App | None, name: str | None) -> list[Job]:
    return [one.rebuild(options) for one in chosen_projections(app, name)]


def _compaction(options: PipelineOptions, app: App | None, name: str | None) -> list[Job]:
    from driftq.pipeline.compaction import CompactionJob

    return [CompactionJob(options)]


def _bridge(options: PipelineOptions, route: BridgeRoute | None) -> list[Job]:
    from driftq.pipeline.bridge.job import Bridge

    if route is None:
        raise InvalidArgument("--from", "a bridge needs --from and --to")
    return [Bridge(options, route)]


def _unknown(what: str, name: str | None, known: Sequence[str]) -> InvalidArgument:
    return InvalidArgument("--name", f"there is no {what} {name!r}, only {', '.join(known)}")


_MAKERS: dict[str, Callable[[PipelineOptions, App | None, str | None], list[Job]]] = {
    "publisher": _publisher,
    "worker": _workers,
    "projection": _projections,
    "rebuild": _rebuilds,
    "compact": _compaction,
}
BRIDGE = "bridge"
SHIPPED = (*_MAKERS, BRIDGE)

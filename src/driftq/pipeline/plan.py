"""The graph of an app: which job reads what, does what, and writes where."""

from __future__ import annotations

from typing import Any

import msgspec

from driftq.pipeline.app import App, RunsAsJob
from driftq.pipeline.worker.spec import WorkerSpec


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One job of the graph."""

    job: str
    """Also the name of its checkpoint."""
    kind: str
    sources: tuple[str, ...]
    does: str
    """The fold of a projection, the handler of a worker."""
    sinks: tuple[str, ...]
    effect: str | None = None
    family: str | None = None
    gap_policy: str | None = None


def plan_of(app: App) -> list[Step]:
    """Workers first, as they may append events that projections then see."""
    return [*map(_of_worker, app.workers), *map(_of_projection, app.projections)]


def _of_worker(spec: WorkerSpec) -> Step:
    return Step(
        job=f"worker-{spec.name}",
        kind="worker",
        sources=_topics(spec),
        does=spec.name,
        sinks=("registry",),
        effect=str(spec.effect),
        family=str(spec.family),
        gap_policy=str(spec.gap_policy),
    )


def _of_projection(projection: RunsAsJob) -> Step:
    return Step(
        job=f"projection-{projection.name}",
        kind="projection",
        sources=_topics(projection),
        does=_name_of(getattr(projection, "fold", None)),
        sinks=tuple(_name_of(sink) for sink in getattr(projection, "sinks", ())),
    )


def _topics(reader: Any) -> tuple[str, ...]:
    topics = getattr(reader, "topics", None) or ()
    pattern = getattr(reader, "topic_pattern", None)
    return (*topics, pattern) if pattern else tuple(topics)


def _name_of(thing: Any) -> str:
    return str(getattr(thing, "__name__", None) or type(thing).__name__)

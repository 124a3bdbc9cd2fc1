"""The graph of an app: which job reads what, does what, and writes where."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from driftq.pipeline.app.app import App, RunsAsJob
from driftq.pipeline.worker.spec import WorkerSpec

_BEFORE_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


class PlanStep(msgspec.Struct, frozen=True, kw_only=True):
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


def plan_of(app: App) -> list[PlanStep]:
    """Workers first, as they may append events that projections then read."""
    return [*map(_of_worker, app.workers), *map(_of_projection, app.projections)]


def _of_worker(spec: WorkerSpec) -> PlanStep:
    return PlanStep(
        job=f"worker-{spec.name}",
        kind="worker",
        sources=_topics(spec),
        does=spec.name,
        sinks=("registry", *map(str, spec.sinks)),
        effect=str(spec.effect),
        family=str(spec.family),
        gap_policy=str(spec.gap_policy),
    )


def _of_projection(projection: RunsAsJob) -> PlanStep:
    return PlanStep(
        job=f"projection-{projection.name}",
        kind="projection",
        sources=_topics(projection),
        does=_fold(projection),
        sinks=tuple(map(_sink, getattr(projection, "sinks", ()))) or ("read_models",),
    )


def _topics(reader: Any) -> tuple[str, ...]:
    topics = getattr(reader, "topics", None) or ()
    pattern = getattr(reader, "topic_pattern", None)
    return (*topics, pattern) if pattern else tuple(topics)


def _fold(projection: Any) -> str:
    """A function by its name; our own folds, which are objects, as users write them."""
    fold = getattr(projection, "fold", None)
    name = getattr(fold, "__name__", None)
    return str(name) if name else _BEFORE_CAPITAL.sub("_", type(fold).__name__).lower()


def _sink(sink: Any) -> str:
    """The kind of sink, and its location if that holds no password."""
    where = next(filter(None, (getattr(sink, name, None) for name in ("address", "path", "folder"))), None)
    return f"{type(sink).__name__} {where}" if where else type(sink).__name__

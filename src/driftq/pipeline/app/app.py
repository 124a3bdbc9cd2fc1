"""A user's pipeline: an `App` with its handlers and projections. Registering runs nothing.

from driftq.pipeline import App
app = App()

@app.worker(topics=["events.order"], effect=driftq.Effect.IDEMPOTENT)
def charge(event, context): ...

app.projection(Projection("orders", topic="events.order", sink=...))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

from driftq.pipeline.worker.spec import Family, HandlerCall, WorkerSpec
from driftq.registry import Effect, GapPolicy

if TYPE_CHECKING:
    from driftq.effects.sinks import SinkBindings
    from driftq.model.options.pipeline import PipelineOptions
    from driftq.pipeline.runtime.job import BatchJob, StreamJob

_Handler = TypeVar("_Handler", bound=HandlerCall)


@runtime_checkable
class RunsAsJob(Protocol):
    """The part of a projection that an app uses."""

    @property
    def name(self) -> str: ...

    def job(self, options: PipelineOptions) -> StreamJob: ...

    def rebuild(self, options: PipelineOptions) -> BatchJob: ...


_Projection = TypeVar("_Projection", bound=RunsAsJob)


class App:
    """Handlers and projections in the order in which they were registered; no two of a kind share a name."""

    def __init__(self) -> None:
        self.workers: list[WorkerSpec] = []
        self.projections: list[RunsAsJob] = []

    def worker(
        self,
        *,
        topics: Sequence[str] = (),
        topic_pattern: str | None = None,
        effect: Effect,
        name: str | None = None,
        family: str = "instance",
        gap_policy: GapPolicy = GapPolicy.ORDERED,
        sinks: SinkBindings | None = None,
    ) -> Callable[[_Handler], _Handler]:
        """Register the decorated function as a handler. Its claims carry its name: do not change it.

        `sinks` are those that an IDEMPOTENT handler writes by `context.sink(name)`: sinks or addresses.
        """
        if isinstance(topics, str):
            raise TypeError(f"topics is a list of names: write topics=[{topics!r}]")

        def register(handler: _Handler) -> _Handler:
            if not callable(handler):
                raise TypeError(f"@app.worker goes on a function, not on a {type(handler).__name__}")
            spec = WorkerSpec(
                name=name or str(getattr(handler, "__name__", "")),
                call=handler,
                topics=tuple(topics),
                topic_pattern=topic_pattern,
                effect=effect,
                family=Family(family),
                gap_policy=gap_policy,
                sinks=dict(sinks or {}),
            )
            _refuse_second("handler", spec.name, [one.name for one in self.workers])
            self.workers.append(spec)
            return handler

        return register

    def projection(self, projection: _Projection) -> _Projection:
        """Register a projection, and return it."""
        if not isinstance(projection, RunsAsJob):
            raise TypeError(
                f"app.projection takes a driftq.pipeline.Projection, not a {type(projection).__name__}"
            )
        _refuse_second("projection", projection.name, [one.name for one in self.projections])
        self.projections.append(projection)
        return projection


def _refuse_second(what: str, name: str, names: Sequence[str]) -> None:
    if name in names:
        raise ValueError(f"there are two {what}s called {name!r}: give one of them another name")

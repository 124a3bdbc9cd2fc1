"""The declaration of a worker on Spark: a handler, its topics, and its effect."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from driftq.effects.declared import check_declared
from driftq.effects.sinks import HandlerSinks
from driftq.errors import InvalidArgument
from driftq.eventstore.published import PublishedEvent
from driftq.model.options.pipeline import PipelineOptions, RegistrySettings
from driftq.pipeline.transport import TopicSubscription
from driftq.pipeline.worker.context import WorkerContext
from driftq.pipeline.worker.derived import DerivedEvent
from driftq.registry import Effect, GapPolicy, Handler

if TYPE_CHECKING:
    from driftq.pipeline.worker.job import WorkerJob
    from driftq.sinks import ReadModelSink

HandlerCall = Callable[[PublishedEvent, WorkerContext], Sequence[DerivedEvent] | None]


class Family(enum.StrEnum):
    """Which setting limits the retries of a failed event."""

    INSTANCE = "instance"
    ONTOLOGY = "ontology"


@dataclass(frozen=True, kw_only=True)
class WorkerSpec:
    """One handler. The registry identifies it by its name: under a new name it handles every event again."""

    name: str
    call: HandlerCall
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    """A regular expression, in place of `topics`."""
    effect: Effect
    family: Family = Family.INSTANCE
    gap_policy: GapPolicy = GapPolicy.ORDERED
    sinks: Mapping[str, str | ReadModelSink] = field(default_factory=dict, repr=False)
    """What `context.sink(name)` writes to: sinks, or their addresses."""

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidArgument("name", "must not be empty")
        if bool(self.topics) == bool(self.topic_pattern):
            raise InvalidArgument("topics", f"worker {self.name!r} needs topics or a topic pattern")
        for name, words, given in (
            ("effect", Effect, self.effect),
            ("family", Family, self.family),
            ("gap_policy", GapPolicy, self.gap_policy),
        ):
            if given not in list(words):
                raise InvalidArgument(name, f"must be one of {', '.join(words)}, not {given!r}")
        if self.sinks and self.effect is not Effect.IDEMPOTENT:
            raise InvalidArgument("effect", f"worker {self.name!r} has sinks: declare it idempotent")
        HandlerSinks(self.sinks)
        check_declared(self.name, self.call, Effect(self.effect))

    @property
    def subscription(self) -> TopicSubscription:
        return TopicSubscription(topics=self.topics, pattern=self.topic_pattern)

    def handler(self, settings: RegistrySettings) -> Handler:
        """Its policy in the registry, under the current settings."""
        retries = {
            Family.INSTANCE: settings.instance_retries_max,
            Family.ONTOLOGY: settings.ontology_retries_max,
        }
        return Handler(
            self.name,
            Effect(self.effect),
            GapPolicy(self.gap_policy),
            max_retries=retries[Family(self.family)],
            lease_ms=settings.lease_seconds * 1000,
        )

    def job(self, options: PipelineOptions) -> WorkerJob:
        """The streaming query that runs it."""
        from driftq.pipeline.worker.job import WorkerJob

        return WorkerJob(self, options)

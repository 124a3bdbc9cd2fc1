"""The definition of a projection: its topics, its fold, its sinks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import TYPE_CHECKING

from driftq.errors import InvalidArgument
from driftq.pipeline.projection.folds import LatestState, Ordered, latest_state
from driftq.pipeline.transport import TopicSubscription
from driftq.sinks import PostgresSink, ReadModelSink, SqliteSink, TakesS3Endpoint, open_sink
from driftq.sinks.names import projection_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from driftq.model.options.pipeline import PipelineOptions
    from driftq.pipeline.projection.job import ProjectionJob
    from driftq.pipeline.projection.rebuild import RebuildJob
    from driftq.pipeline.projection.user_fold import DataFrameFold

KEYS = ("aggregate_id", "key")
_NEWEST_MAX = 1_000_000
_EVERY_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Projection:
    """A read model of one or more topics.

    `key` names what a row represents: `aggregate_id` where messages are events, `key` where each message is
    the whole state of its key. Without a sink the read model goes to the pipeline's own targets: those of
    `DRIFTQ_SINKS`, else the database of `DRIFTQ_DATABASE_URL` if that is PostgreSQL, else an SQLite file.
    Raises InvalidArgument.
    """

    name: str
    _: KW_ONLY
    topic: InitVar[str | None] = None
    topics: Sequence[str] = ()
    topic_pattern: str | None = None
    key: str = "aggregate_id"
    sink: InitVar[ReadModelSink | None] = None
    sinks: Sequence[ReadModelSink] = ()
    fold: LatestState | Ordered | DataFrameFold = latest_state
    batch_messages_max: int | None = None
    """In one micro-batch. With SQLite and Delta its result must fit in the memory of Spark's driver."""

    def __post_init__(self, topic: str | None, sink: ReadModelSink | None) -> None:
        projection_name(self.name)
        if isinstance(self.topics, str):
            raise InvalidArgument("topics", f"is a list of names: write topics=[{self.topics!r}]")
        if sum(map(bool, (topic, self.topics, self.topic_pattern))) != 1:
            raise InvalidArgument(
                "topic", f"projection {self.name!r} needs one of topic, topics, topic_pattern"
            )
        if sink is not None and self.sinks:
            raise InvalidArgument("sink", f"projection {self.name!r} has both sink and sinks")
        if self.key not in KEYS:
            raise InvalidArgument("key", f"must be one of {', '.join(KEYS)}, not {self.key!r}")
        if self.key == "key" and not isinstance(self.fold, LatestState):
            raise InvalidArgument("fold", "messages by key have no sequence; only latest_state can fold them")
        object.__setattr__(self, "topics", (topic,) if topic else tuple(self.topics))
        object.__setattr__(self, "sinks", (sink,) if sink is not None else tuple(self.sinks))

    @property
    def subscription(self) -> TopicSubscription:
        return TopicSubscription(topics=tuple(self.topics), pattern=self.topic_pattern)

    @property
    def batch_max(self) -> int:
        """Where every message is held until it is folded, and not only the newest ones, fewer fit."""
        return self.batch_messages_max or (_EVERY_MAX if isinstance(self.fold, Ordered) else _NEWEST_MAX)

    def targets(self, options: PipelineOptions) -> tuple[ReadModelSink, ...]:
        """Its sinks. Those that a command names count before its own.

        Raises InvalidArgument for an address that names none, and for a sink that cannot serve the fold.
        """
        own = () if options.sinks else tuple(completed(sink, options) for sink in self.sinks)
        targets = own or default_sinks(options)
        for sink in targets:
            if isinstance(self.fold, Ordered) and not sink.capabilities.ordered:
                raise InvalidArgument(
                    "sink",
                    f"{type(sink).__name__} cannot serve the fold `ordered` of projection {self.name!r}: "
                    "what is read from it may be older than what was stored last. Use another sink",
                )
        return targets

    def job(self, options: PipelineOptions) -> ProjectionJob:
        from driftq.pipeline.projection.job import ProjectionJob

        return ProjectionJob(self, options)

    def rebuild(self, options: PipelineOptions) -> RebuildJob:
        from driftq.pipeline.projection.rebuild import RebuildJob

        return RebuildJob(self, options)

    def run(self, spark: SparkSession, *, options: PipelineOptions | None = None, once: bool = False) -> None:
        """Keep the read model current until the session ends, or with `once` until it holds all messages.

        Raises ProjectionFenced when another run has taken over, SparkUnusable in a Spark Connect session.
        """
        from driftq.pipeline.projection.job import run_job
        from driftq.pipeline.spark.equipped import require_own_driver
        from driftq.settings import load_settings

        require_own_driver(spark)
        run_job(self.job(options or load_settings().pipeline()), spark, once=once)


def default_sinks(options: PipelineOptions) -> tuple[ReadModelSink, ...]:
    """The targets of read models without a sink. Raises InvalidArgument."""
    if addresses := options.sinks or options.default_sinks:
        return tuple(completed(open_sink(address), options) for address in addresses)
    url = options.events.database_url
    if url is not None and url.startswith("postgres"):
        return (PostgresSink(url),)
    return (SqliteSink(options.read_models_file),)


def completed(sink: ReadModelSink, options: PipelineOptions) -> ReadModelSink:
    """The sink with what the settings say and it leaves out."""
    return sink.with_s3_endpoint(options.events.s3_endpoint) if isinstance(sink, TakesS3Endpoint) else sink


LATEST = Projection("latest", topic_pattern=r"events\..*")
"""The built-in one: the newest payload of every aggregate of every published type."""

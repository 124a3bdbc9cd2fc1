"""Options of the pipeline as plain data: nothing here needs Spark or a database driver.

These objects travel to Spark's workers, so they hold nothing but values.
"""

from dataclasses import dataclass, field

from driftq.model.options.credentials import NO_CREDENTIALS, Credentials
from driftq.model.options.events import EventOptions
from driftq.model.options.kafka import KafkaOptions

DRIFTQ = "driftq"
KAFKA = "kafka"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrySettings:
    """How workers and projections claim events."""

    enabled: bool
    lease_seconds: int
    heartbeat_seconds: int
    owner: str | None
    instance_retries_max: int
    ontology_retries_max: int
    projection_retries_max: int
    worker_batch_events: int
    """In one micro-batch of a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublisherSettings:
    """How events get from the log to topics."""

    lookback_seconds: int
    lookback_keys_max: int
    dedup_events_max: int
    dedup_checkpoint_events_max: int
    batch_events: int
    flush_events: int
    flush_timeout_seconds: int
    transaction_events: int
    """Events of a lane in one transaction, on Kafka."""
    metrics_interval_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """Where a pipeline's jobs find the server and store their progress."""

    url: str
    """The server's address."""
    data: str
    """The folder shared with the server."""
    events: EventOptions
    """`events.folder` is `data`."""
    registry: RegistrySettings
    publisher: PublisherSettings
    transport: str = DRIFTQ
    """What carries published events: DRIFTQ or KAFKA."""
    kafka: KafkaOptions = field(default_factory=KafkaOptions)
    sinks: tuple[str, ...] = field(default=(), repr=False)
    """Addresses of the targets of every projection, where a command names them."""
    default_sinks: tuple[str, ...] = field(default=(), repr=False)
    """Addresses of the targets of projections without a sink of their own."""
    credentials: Credentials = NO_CREDENTIALS
    """Of the jobs, at the server."""

    @property
    def folder(self) -> str:
        return f"{self.data}/pipeline"

    @property
    def registry_file(self) -> str:
        """SQLite's file of the registry, where no database is set."""
        return f"{self.folder}/registry.db"

    @property
    def read_models_file(self) -> str:
        """SQLite's file of the read models, where no database is set."""
        return f"{self.folder}/read_models.db"

    def checkpoint(self, job: str) -> str:
        """Where Spark keeps the progress of this job."""
        return f"{self.folder}/checkpoints/{job}"

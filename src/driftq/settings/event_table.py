"""The settings of the event store, its registry, its publisher and what they stand on."""

from driftq.settings.address import DatabaseUrl, ObjectsUrl, SinkAddresses
from driftq.settings.spec import Choice, HttpUrl, Identifier, IntRange, SettingSpec, Text

_COUNT_MAX = 2**31 - 1
_SECONDS_MAX = 30 * 24 * 3600
_RETRIES = IntRange(0, 1_000_000, "retries")
_EVENTS = IntRange(1, _COUNT_MAX, "events")
_WINDOW = IntRange(0, _COUNT_MAX, "events")
_SECONDS = IntRange(1, _SECONDS_MAX, "seconds")

DATABASE_URL = SettingSpec(
    name="DRIFTQ_DATABASE_URL",
    default=None,
    unset="DIR/events.db",
    kind=DatabaseUrl(),
    meaning="the database of events and claims: SQLite or PostgreSQL",
)
OBJECTS_URL = SettingSpec(
    name="DRIFTQ_OBJECTS_URL",
    default=None,
    unset="DIR/objects",
    kind=ObjectsUrl(),
    meaning="where sealed segments of the event log are kept",
)
S3_ENDPOINT = SettingSpec(
    name="DRIFTQ_S3_ENDPOINT",
    default=None,
    unset="AWS",
    kind=HttpUrl(allowed="an address like http://127.0.0.1:9000"),
    meaning="the server of an s3:// address, if it is not Amazon's",
)
TRANSPORT = SettingSpec(
    name="DRIFTQ_TRANSPORT",
    default="driftq",
    kind=Choice(("driftq", "kafka")),
    meaning="what carries published events to workers and projections",
)
KAFKA_BOOTSTRAP = SettingSpec(
    name="DRIFTQ_KAFKA_BOOTSTRAP",
    default=None,
    kind=Text("servers", "a list like host:9092,other:9092"),
    meaning="the Kafka servers, where Kafka is the transport",
)
KAFKA_TOPIC_PARTITIONS = SettingSpec(
    name="DRIFTQ_KAFKA_TOPIC_PARTITIONS",
    default=4,
    kind=IntRange(1, 100_000, "partitions"),
    meaning="the partitions of a topic that is created on Kafka",
)
KAFKA_TOPIC_REPLICAS = SettingSpec(
    name="DRIFTQ_KAFKA_TOPIC_REPLICAS",
    default=None,
    unset="the Kafka servers' default",
    kind=IntRange(1, 32_767, "replicas"),
    meaning="the replicas of a topic that is created on Kafka",
)
SPARK_KAFKA_JARS = SettingSpec(
    name="DRIFTQ_SPARK_KAFKA_JARS",
    default=None,
    unset="fetched when first needed",
    kind=Text("files", "paths of jars with commas between them, or provided where Spark has them"),
    meaning="the jars of Spark's Kafka connector",
)
SINKS = SettingSpec(
    name="DRIFTQ_SINKS",
    default=None,
    unset="PostgreSQL if DRIFTQ_DATABASE_URL names it, else DIR/pipeline/read_models.db",
    kind=SinkAddresses(),
    meaning="where projections write that name no sink of their own",
)
API_KEYS_FILE = SettingSpec(
    name="DRIFTQ_API_KEYS_FILE",
    default=None,
    kind=Text("file", "the path of a file"),
    meaning="the API keys that requests must carry",
)
EVENT_MISMATCH_MODE = SettingSpec(
    name="EVENT_STORE_IDEMPOTENCY_MISMATCH_MODE",
    default="error",
    kind=Choice(("error", "warn")),
    meaning="a used event_id with other content: a 409, or a duplicate with a warning",
)
REGISTRY_ENABLED = SettingSpec(
    name="ENABLE_PROCESSED_EVENT_REGISTRY",
    default="true",
    kind=Choice(("true", "false")),
    meaning="workers claim each event in the registry; without it only idempotent handlers may run",
)
REGISTRY_LEASE_SECONDS = SettingSpec(
    name="PROCESSED_EVENT_LEASE_TIMEOUT_SECONDS",
    default=900,
    kind=_SECONDS,
    meaning="how long a claim is held without a heartbeat",
)
REGISTRY_HEARTBEAT_SECONDS = SettingSpec(
    name="PROCESSED_EVENT_HEARTBEAT_INTERVAL_SECONDS",
    default=30,
    kind=_SECONDS,
    meaning="how often a worker renews its claim; less than the lease",
)
REGISTRY_OWNER = SettingSpec(
    name="PROCESSED_EVENT_OWNER",
    default=None,
    unset="host and process",
    kind=Text("text"),
    meaning="the name that claims are held under, for display",
)
INSTANCE_RETRIES = SettingSpec(
    name="INSTANCE_WORKER_MAX_RETRY_ATTEMPTS",
    default=5,
    kind=_RETRIES,
    meaning="retries of an event by handlers of the family instance before it is a dead letter",
)
ONTOLOGY_RETRIES = SettingSpec(
    name="ONTOLOGY_WORKER_MAX_RETRY_ATTEMPTS",
    default=5,
    kind=_RETRIES,
    meaning="the same for handlers of the family ontology",
)
PROJECTION_RETRIES = SettingSpec(
    name="PROJECTION_WORKER_MAX_RETRIES",
    default=5,
    kind=_RETRIES,
    meaning="retries of an event by a projection before it is a dead letter",
)
WORKER_BATCH_EVENTS = SettingSpec(
    name="DRIFTQ_WORKER_BATCH_EVENTS",
    default=20_000,
    kind=_EVENTS,
    meaning="how many events a worker on Spark takes in one micro-batch; they are in memory until it ends",
)
LOOKBACK_SECONDS = SettingSpec(
    name="EVENT_PUBLISHER_LOOKBACK_SECONDS",
    default=600,
    kind=IntRange(0, _SECONDS_MAX, "seconds"),
    meaning="how far back the publisher rereads after a start",
)
LOOKBACK_MAX_KEYS = SettingSpec(
    name="EVENT_PUBLISHER_LOOKBACK_MAX_KEYS",
    default=50,
    kind=_WINDOW,
    meaning="how many events it rereads per batch",
)
DEDUP_MAX_EVENTS = SettingSpec(
    name="EVENT_PUBLISHER_DEDUP_MAX_EVENTS",
    default=10_000,
    kind=_WINDOW,
    meaning="how many published event ids it remembers",
)
DEDUP_CHECKPOINT_MAX_EVENTS = SettingSpec(
    name="EVENT_PUBLISHER_DEDUP_CHECKPOINT_MAX_EVENTS",
    default=2_000,
    kind=_WINDOW,
    meaning="how many of them are kept in the checkpoint",
)
BATCH_SIZE = SettingSpec(
    name="EVENT_PUBLISHER_BATCH_SIZE",
    default=200,
    kind=_EVENTS,
    meaning="how many events it publishes at a time",
)
FLUSH_BATCH_SIZE = SettingSpec(
    name="EVENT_PUBLISHER_KAFKA_FLUSH_BATCH_SIZE",
    default=None,
    unset="EVENT_PUBLISHER_BATCH_SIZE",
    kind=_EVENTS,
    meaning="after how many events it waits for the transport's confirmation",
)
FLUSH_TIMEOUT_SECONDS = SettingSpec(
    name="EVENT_PUBLISHER_KAFKA_FLUSH_TIMEOUT_SECONDS",
    default=10,
    kind=_SECONDS,
    meaning="how long it waits for the confirmation",
)
TRANSACTION_EVENTS = SettingSpec(
    name="EVENT_PUBLISHER_KAFKA_TRANSACTION_EVENTS",
    default=10_000,
    kind=_EVENTS,
    meaning="how many events of a lane it sends to Kafka in one transaction",
)
METRICS_INTERVAL_SECONDS = SettingSpec(
    name="EVENT_PUBLISHER_METRICS_LOG_INTERVAL_SECONDS",
    default=30,
    kind=_SECONDS,
    meaning="how often it logs its progress",
)
ALLOCATOR_MODE = SettingSpec(
    name="EVENT_STORE_SEQUENCE_ALLOCATOR_MODE",
    default=None,
    unset="the database's own",
    kind=Choice(("postgres", "sqlite", "legacy", "s3", "off")),
    meaning="who picks sequence numbers: the database, the newest event + 1, or the caller",
)
SEQUENCE_SCHEMA = SettingSpec(
    name="EVENT_STORE_SEQUENCE_SCHEMA",
    default="spice_event_registry",
    kind=Identifier(),
    meaning="the schema of the allocator's table on PostgreSQL",
)
HANDLER_PREFIX = SettingSpec(
    name="EVENT_STORE_SEQUENCE_HANDLER_PREFIX",
    default="write_side",
    kind=Text("text"),
    meaning="the name that the allocator's rows begin with on PostgreSQL",
)

EVENT_SETTINGS: tuple[SettingSpec, ...] = (
    DATABASE_URL,
    OBJECTS_URL,
    S3_ENDPOINT,
    TRANSPORT,
    KAFKA_BOOTSTRAP,
    KAFKA_TOPIC_PARTITIONS,
    KAFKA_TOPIC_REPLICAS,
    SPARK_KAFKA_JARS,
    SINKS,
    API_KEYS_FILE,
    EVENT_MISMATCH_MODE,
    REGISTRY_ENABLED,
    REGISTRY_LEASE_SECONDS,
    REGISTRY_HEARTBEAT_SECONDS,
    REGISTRY_OWNER,
    INSTANCE_RETRIES,
    ONTOLOGY_RETRIES,
    PROJECTION_RETRIES,
    WORKER_BATCH_EVENTS,
    LOOKBACK_SECONDS,
    LOOKBACK_MAX_KEYS,
    DEDUP_MAX_EVENTS,
    DEDUP_CHECKPOINT_MAX_EVENTS,
    BATCH_SIZE,
    FLUSH_BATCH_SIZE,
    FLUSH_TIMEOUT_SECONDS,
    TRANSACTION_EVENTS,
    METRICS_INTERVAL_SECONDS,
    ALLOCATOR_MODE,
    SEQUENCE_SCHEMA,
    HANDLER_PREFIX,
)

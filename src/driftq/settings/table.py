"""Every setting, in the order in which `driftq config` lists them."""

from driftq.model.options.limits import LEASE_MS_MAX, Limits
from driftq.settings.event_table import EVENT_SETTINGS
from driftq.settings.job_table import JOB_SETTINGS
from driftq.settings.serve_table import FILE, SERVE_SETTINGS
from driftq.settings.spec import ApiKeyText, Choice, HostNames, HttpUrl, IntRange, SettingSpec, Text

_COUNT_MAX = 2**31 - 1
_BYTES_MAX = 2**60
_YEARS_100_MS = 100 * 365 * 24 * 3600 * 1000
_WEEK_MS = 7 * 24 * 3600 * 1000
_LIMITS = Limits()

OWNED_PREFIXES = ("DRIFTQ_BROKER_", "DRIFTQ_IDEMPOTENCY_", "DRIFTQ_JOBS_")
"""A name that begins with this and is not in the table is an error."""
FAMILIES = (
    *("DRIFTQ_", "EVENT_STORE_", "EVENT_PUBLISHER_", "PROCESSED_EVENT_", "ENABLE_PROCESSED_EVENT_"),
    *("INSTANCE_WORKER_", "ONTOLOGY_WORKER_", "PROJECTION_WORKER_"),
)
"""A name that begins with this is an error if it resembles one in the table; others use the prefix too."""
NOT_OURS = ("DRIFTQ_KAFKA_", "DRIFTQ_TEST_")
"""Options of Kafka's clients, which have names of their own, and variables of the tests."""

IN_FLIGHT_MAX = SettingSpec(
    name="DRIFTQ_BROKER_IN_FLIGHT_MAX",
    default=_LIMITS.in_flight_max,
    kind=IntRange(1, _COUNT_MAX, "messages"),
    meaning="unacked messages that may be in flight per topic, group and partition",
)
ACK_TIMEOUT_MS = SettingSpec(
    name="DRIFTQ_BROKER_ACK_TIMEOUT_MS",
    default=_LIMITS.ack_timeout_ms,
    kind=IntRange(1, LEASE_MS_MAX, "ms"),
    meaning="how long a delivery is leased when its consumer names no lease_ms",
)
PARTITION_MESSAGES_MAX = SettingSpec(
    name="DRIFTQ_BROKER_PARTITION_MESSAGES_MAX",
    default=_LIMITS.partition_messages_max,
    kind=IntRange(1, _COUNT_MAX, "messages"),
    meaning="unsettled messages per partition, beyond which produce answers 429",
)
PARTITION_BYTES_MAX = SettingSpec(
    name="DRIFTQ_BROKER_PARTITION_BYTES_MAX",
    default=_LIMITS.partition_bytes_max,
    kind=IntRange(1, _BYTES_MAX, "bytes"),
    meaning="unsettled bytes of keys and values per partition, beyond which produce answers 429",
)
IDEMPOTENCY_TTL_MS = SettingSpec(
    name="DRIFTQ_BROKER_IDEMPOTENCY_TTL_MS",
    default=_LIMITS.idempotency_ttl_ms,
    kind=IntRange(1, _YEARS_100_MS, "ms"),
    meaning="how long an idempotency key stays live",
)
IDEMPOTENCY_KEYS_MAX = SettingSpec(
    name="DRIFTQ_BROKER_IDEMPOTENCY_KEYS_MAX",
    default=_LIMITS.idempotency_keys_max,
    kind=IntRange(1, _COUNT_MAX, "keys"),
    meaning="live idempotency keys, beyond which keyed requests get 429",
)
RETENTION_MS = SettingSpec(
    name="DRIFTQ_BROKER_RETENTION_MS",
    default=_WEEK_MS,
    kind=IntRange(1, _YEARS_100_MS, "ms"),
    meaning="how long messages are kept at least, in topics that set no retention",
)
SEGMENT_BYTES = SettingSpec(
    name="DRIFTQ_BROKER_SEGMENT_BYTES",
    default=64 << 20,
    kind=IntRange(1 << 16, 1 << 30, "bytes"),
    meaning="size of a file of the log; two of them are reserved on the disk",
)
FREE_BYTES_MIN = SettingSpec(
    name="DRIFTQ_BROKER_FREE_BYTES_MIN",
    default=256 << 20,
    kind=IntRange(0, _BYTES_MAX, "bytes"),
    meaning="free disk space below which produce answers 503 disk_full",
)
MISMATCH_MODE = SettingSpec(
    name="DRIFTQ_IDEMPOTENCY_MISMATCH_MODE",
    default="warn",
    kind=Choice(("warn", "error")),
    meaning="a used idempotency key with another payload: a duplicate with a warning, or a 409",
)
URL = SettingSpec(
    name="DRIFTQ_URL",
    default="http://127.0.0.1:8080",
    kind=HttpUrl(),
    meaning="the server that client commands talk to",
)
DATA = SettingSpec(
    name="DRIFTQ_DATA",
    default="./driftq-data",
    kind=Text("folder", "the path of a folder"),
    meaning="the folder of the server; the log is in its subfolder log",
)
ALLOWED_HOSTS = SettingSpec(
    name="DRIFTQ_ALLOWED_HOSTS",
    default=None,
    kind=HostNames(),
    meaning="host names that the server accepts; others get 403",
    unset="addresses, localhost, --host",
)
API_KEY = SettingSpec(
    name="DRIFTQ_API_KEY",
    default=None,
    kind=ApiKeyText(),
    meaning="the API key that clients and commands send to the server",
    secret=True,
)
CA_FILE = SettingSpec(
    name="DRIFTQ_CA_FILE",
    default=None,
    unset="the system's certificates",
    kind=FILE,
    meaning="the certificates that the server's certificate must be signed by, for clients and commands",
)
CLIENT_CERT = SettingSpec(
    name="DRIFTQ_CLIENT_CERT",
    default=None,
    kind=FILE,
    meaning="the certificate that clients and commands show to a server that asks for one",
)
CLIENT_KEY = SettingSpec(
    name="DRIFTQ_CLIENT_KEY",
    default=None,
    unset="in the file of the certificate",
    kind=FILE,
    meaning="the private key of that certificate",
)
COMMIT = SettingSpec(
    name="DRIFTQ_COMMIT",
    default="unknown",
    kind=Text("text"),
    meaning="the commit this build was made from, shown by /v1/version",
)

SETTINGS: tuple[SettingSpec, ...] = (
    IN_FLIGHT_MAX,
    ACK_TIMEOUT_MS,
    PARTITION_MESSAGES_MAX,
    PARTITION_BYTES_MAX,
    IDEMPOTENCY_TTL_MS,
    IDEMPOTENCY_KEYS_MAX,
    RETENTION_MS,
    SEGMENT_BYTES,
    FREE_BYTES_MIN,
    MISMATCH_MODE,
    *JOB_SETTINGS,
    URL,
    DATA,
    ALLOWED_HOSTS,
    API_KEY,
    CA_FILE,
    CLIENT_CERT,
    CLIENT_KEY,
    COMMIT,
    *SERVE_SETTINGS,
    *EVENT_SETTINGS,
)

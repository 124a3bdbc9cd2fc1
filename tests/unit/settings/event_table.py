"""The settings behind the event store, written by hand: name, default, accepted texts, refused texts."""

COUNTS = ["1", "2147483647"], ["0", "-1", "2147483648", "many", ""]
WINDOWS = ["0", "2147483647"], ["-1", "1e3", ""]
SECONDS = ["40", "2592000"], ["0", "-30", "1.5", "30s", ""]
RETRIES = ["0", "1000000"], ["-1", "1000001", "five", ""]

EVENT_TABLE = [
    (
        "DRIFTQ_DATABASE_URL",
        None,
        ["sqlite:///events.db", "sqlite:////var/lib/events.db", "postgresql://u@h:5432/d", "postgres://h/d"],
        ["", "events.db", "mysql://h/d", "sqlite://", "sqlite:///\n", "postgresql://"],
    ),
    (
        "DRIFTQ_OBJECTS_URL",
        None,
        ["file:///srv/objects", "s3://bucket/a/b"],
        ["", "/srv", "s3://", "file:///"],
    ),
    ("DRIFTQ_S3_ENDPOINT", None, ["http://127.0.0.1:9000"], ["", "127.0.0.1:9000", "s3://h"]),
    ("DRIFTQ_TRANSPORT", "driftq", ["driftq"], ["", "rabbit", "Kafka"]),
    ("DRIFTQ_KAFKA_BOOTSTRAP", None, ["a:9092,b:9092"], ["", "a\nb"]),
    ("DRIFTQ_KAFKA_TOPIC_PARTITIONS", 4, ["1", "100000"], ["0", "-1", "four", ""]),
    ("DRIFTQ_KAFKA_TOPIC_REPLICAS", None, ["1", "3"], ["0", "-1", ""]),
    ("DRIFTQ_SPARK_KAFKA_JARS", None, ["/a.jar,/b.jar", "provided"], ["", "a\nb"]),
    (
        "DRIFTQ_SINKS",
        None,
        ["sqlite:////a/b.db", "postgresql://u@h/d parquet:///a", "module:sink"],
        ["", "a.db", "mongodb://h"],
    ),
    ("DRIFTQ_API_KEYS_FILE", None, ["/etc/driftq/keys.toml"], ["", "a\nb"]),
    ("EVENT_STORE_IDEMPOTENCY_MISMATCH_MODE", "error", ["error", "warn"], ["", "raise", "WARN"]),
    ("ENABLE_PROCESSED_EVENT_REGISTRY", "true", ["true", "false"], ["", "yes", "1", "True"]),
    ("PROCESSED_EVENT_LEASE_TIMEOUT_SECONDS", 900, *SECONDS),
    ("PROCESSED_EVENT_HEARTBEAT_INTERVAL_SECONDS", 30, ["1", "899"], ["0", "-1", "1.5", ""]),
    ("PROCESSED_EVENT_OWNER", None, ["worker 1"], ["", "a\nb"]),
    ("INSTANCE_WORKER_MAX_RETRY_ATTEMPTS", 5, *RETRIES),
    ("ONTOLOGY_WORKER_MAX_RETRY_ATTEMPTS", 5, *RETRIES),
    ("PROJECTION_WORKER_MAX_RETRIES", 5, *RETRIES),
    ("DRIFTQ_WORKER_BATCH_EVENTS", 20_000, *COUNTS),
    ("EVENT_PUBLISHER_LOOKBACK_SECONDS", 600, ["0", "2592000"], ["-1", "10m"]),
    ("EVENT_PUBLISHER_LOOKBACK_MAX_KEYS", 50, *WINDOWS),
    ("EVENT_PUBLISHER_DEDUP_MAX_EVENTS", 10_000, *WINDOWS),
    ("EVENT_PUBLISHER_DEDUP_CHECKPOINT_MAX_EVENTS", 2_000, *WINDOWS),
    ("EVENT_PUBLISHER_BATCH_SIZE", 200, *COUNTS),
    ("EVENT_PUBLISHER_KAFKA_FLUSH_BATCH_SIZE", None, *COUNTS),
    ("EVENT_PUBLISHER_KAFKA_FLUSH_TIMEOUT_SECONDS", 10, *SECONDS),
    ("EVENT_PUBLISHER_KAFKA_TRANSACTION_EVENTS", 10_000, *COUNTS),
    ("EVENT_PUBLISHER_METRICS_LOG_INTERVAL_SECONDS", 30, *SECONDS),
    (
        "EVENT_STORE_SEQUENCE_ALLOCATOR_MODE",
        None,
        ["sqlite", "legacy", "s3", "off"],
        ["", "auto", "Off"],
    ),
    ("EVENT_STORE_SEQUENCE_SCHEMA", "spice_event_registry", ["events", "_a1"], ["", "1a", "a-b", 'a"b']),
    ("EVENT_STORE_SEQUENCE_HANDLER_PREFIX", "write_side", ["other"], ["", "a\nb"]),
]

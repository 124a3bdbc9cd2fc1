"""The settings of everything behind the event store, and what must hold between them."""

from collections.abc import Iterator, Mapping

from driftq.model.options.events import EventOptions
from driftq.model.options.pipeline import PublisherSettings, RegistrySettings
from driftq.settings import event_table as table
from driftq.settings.address import is_postgres
from driftq.settings.spec import Problem, SettingSpec, Value

Values = Mapping[str, Value | None]


def event_options(values: Values) -> EventOptions:
    return EventOptions(
        database_url=_text(values, table.DATABASE_URL),
        objects_url=_text(values, table.OBJECTS_URL),
        s3_endpoint=_text(values, table.S3_ENDPOINT),
        allocator=_text(values, table.ALLOCATOR_MODE),
        mismatch=str(values[table.EVENT_MISMATCH_MODE.name]),
        sequence_schema=str(values[table.SEQUENCE_SCHEMA.name]),
        handler_prefix=str(values[table.HANDLER_PREFIX.name]),
    )


def registry_settings(values: Values) -> RegistrySettings:
    return RegistrySettings(
        enabled=values[table.REGISTRY_ENABLED.name] == "true",
        lease_seconds=_number(values, table.REGISTRY_LEASE_SECONDS),
        heartbeat_seconds=_number(values, table.REGISTRY_HEARTBEAT_SECONDS),
        owner=_text(values, table.REGISTRY_OWNER),
        instance_retries_max=_number(values, table.INSTANCE_RETRIES),
        ontology_retries_max=_number(values, table.ONTOLOGY_RETRIES),
        projection_retries_max=_number(values, table.PROJECTION_RETRIES),
        worker_batch_events=_number(values, table.WORKER_BATCH_EVENTS),
    )


def publisher_settings(values: Values) -> PublisherSettings:
    batch_events = _number(values, table.BATCH_SIZE)
    flush_events = values[table.FLUSH_BATCH_SIZE.name]
    return PublisherSettings(
        lookback_seconds=_number(values, table.LOOKBACK_SECONDS),
        lookback_keys_max=_number(values, table.LOOKBACK_MAX_KEYS),
        dedup_events_max=_number(values, table.DEDUP_MAX_EVENTS),
        dedup_checkpoint_events_max=_number(values, table.DEDUP_CHECKPOINT_MAX_EVENTS),
        batch_events=batch_events,
        flush_events=batch_events if flush_events is None else int(flush_events),
        flush_timeout_seconds=_number(values, table.FLUSH_TIMEOUT_SECONDS),
        transaction_events=_number(values, table.TRANSACTION_EVENTS),
        metrics_interval_seconds=_number(values, table.METRICS_INTERVAL_SECONDS),
    )


def contradictions(values: Values) -> Iterator[Problem]:
    """Values that are valid alone but not together."""
    lease, heartbeat = table.REGISTRY_LEASE_SECONDS, table.REGISTRY_HEARTBEAT_SECONDS
    if _number(values, heartbeat) >= _number(values, lease):
        must_be = f"less than {lease.name}, which is {values[lease.name]}"
        yield Problem(heartbeat.name, str(values[heartbeat.name]), must_be)
    mode = values[table.ALLOCATOR_MODE.name]
    on_postgres = is_postgres(_text(values, table.DATABASE_URL))
    if mode in ("postgres", "sqlite") and on_postgres is not (mode == "postgres"):
        engine = "PostgreSQL" if on_postgres else "SQLite"
        must_be = f"unset, legacy, s3 or off: {table.DATABASE_URL.name} leads to {engine}"
        yield Problem(table.ALLOCATOR_MODE.name, str(mode), must_be)
    bootstrap = table.KAFKA_BOOTSTRAP
    if values[table.TRANSPORT.name] == "kafka" and values[bootstrap.name] is None:
        yield Problem(
            bootstrap.name, "", f"{bootstrap.kind.allowed}, because {table.TRANSPORT.name} is kafka"
        )


def _number(values: Values, spec: SettingSpec) -> int:
    value = values[spec.name]
    assert value is not None  # Only settings with a default are read here.
    return int(value)


def _text(values: Values, spec: SettingSpec) -> str | None:
    value = values[spec.name]
    return None if value is None else str(value)

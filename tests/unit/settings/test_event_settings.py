"""What must hold between the settings of the event store, and what they become."""

import pytest

from driftq.settings import SettingsRefused, load_settings, without_password

POSTGRES = "postgresql://driftq:secret@db/events"


@pytest.mark.clause("N1")
@pytest.mark.parametrize(("lease", "heartbeat"), [("30", "30"), ("10", None), (None, "900")])
def test_a_heartbeat_that_is_not_shorter_than_the_lease_is_refused(
    lease: str | None, heartbeat: str | None
) -> None:
    names = {
        "PROCESSED_EVENT_LEASE_TIMEOUT_SECONDS": lease,
        "PROCESSED_EVENT_HEARTBEAT_INTERVAL_SECONDS": heartbeat,
    }
    with pytest.raises(SettingsRefused, match=r"PROCESSED_EVENT_HEARTBEAT_INTERVAL_SECONDS is .* less than"):
        load_settings(environ={name: value for name, value in names.items() if value is not None})


@pytest.mark.clause("N1", "S7")
@pytest.mark.parametrize(
    ("mode", "url"), [("postgres", None), ("postgres", "sqlite:///a.db"), ("sqlite", POSTGRES)]
)
def test_an_allocator_that_the_database_does_not_have_is_refused(mode: str, url: str | None) -> None:
    environ = {"EVENT_STORE_SEQUENCE_ALLOCATOR_MODE": mode} | ({"DRIFTQ_DATABASE_URL": url} if url else {})
    with pytest.raises(SettingsRefused, match=f"EVENT_STORE_SEQUENCE_ALLOCATOR_MODE is '{mode}'"):
        load_settings(environ=environ)


@pytest.mark.clause("S7")
def test_the_settings_of_the_write_side_reach_the_store() -> None:
    assert load_settings(environ={}).events.allocator is None
    environ = {
        "DRIFTQ_DATABASE_URL": POSTGRES,
        "EVENT_STORE_SEQUENCE_ALLOCATOR_MODE": "postgres",
        "EVENT_STORE_SEQUENCE_SCHEMA": "numbers",
        "EVENT_STORE_SEQUENCE_HANDLER_PREFIX": "writers",
        "EVENT_STORE_IDEMPOTENCY_MISMATCH_MODE": "warn",
    }
    events = load_settings(environ=environ).events
    assert (events.allocator, events.sequence_schema, events.handler_prefix) == (
        "postgres",
        "numbers",
        "writers",
    )
    assert (events.database_url, events.mismatch) == (POSTGRES, "warn")


@pytest.mark.clause("N1")
def test_kafka_needs_its_servers() -> None:
    with pytest.raises(SettingsRefused, match="DRIFTQ_KAFKA_BOOTSTRAP is ''"):
        load_settings(environ={"DRIFTQ_TRANSPORT": "kafka"})
    both = {"DRIFTQ_TRANSPORT": "kafka", "DRIFTQ_KAFKA_BOOTSTRAP": "a:9092"}
    settings = load_settings(environ=both)
    assert (settings.transport, settings.kafka.bootstrap) == ("kafka", "a:9092")
    assert settings.pipeline().kafka == settings.kafka


@pytest.mark.clause("N1")
def test_a_flush_is_as_large_as_a_batch_unless_it_is_said() -> None:
    assert load_settings(environ={"EVENT_PUBLISHER_BATCH_SIZE": "7"}).publisher.flush_events == 7
    environ = {"EVENT_PUBLISHER_BATCH_SIZE": "7", "EVENT_PUBLISHER_KAFKA_FLUSH_BATCH_SIZE": "3"}
    assert load_settings(environ=environ).publisher.flush_events == 3


@pytest.mark.clause("N1")
def test_the_registry_has_its_defaults() -> None:
    registry = load_settings(environ={}).registry
    assert (registry.enabled, registry.lease_seconds, registry.heartbeat_seconds) == (True, 900, 30)
    assert load_settings(environ={"ENABLE_PROCESSED_EVENT_REGISTRY": "false"}).registry.enabled is False


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (POSTGRES, "postgresql://driftq:***@db/events"),
        ("postgresql://u:a@b:c@h/d", "postgresql://u:***@h/d"),
        ("postgresql://h/d?user=u&password=p&x=1", "postgresql://h/d?user=u&password=***&x=1"),
        ("sqlite:////a:b@c", "sqlite:////a:b@c"),
    ],
)
def test_a_password_is_not_shown(address: str, shown: str) -> None:
    assert without_password(address) == shown


def test_a_refused_address_does_not_show_its_password() -> None:
    with pytest.raises(SettingsRefused) as refused:
        load_settings(environ={"DRIFTQ_DATABASE_URL": "mysql://u:secret@h/d"})
    assert "secret" not in str(refused.value)

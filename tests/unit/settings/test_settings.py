"""Every setting, against a table written by hand: its name, default, accepted and refused texts."""

from typing import Any

import pytest
from typer.main import get_command

from driftq.cli.app import app
from driftq.settings import (
    PROFILES,
    SETTINGS,
    SettingSource,
    SettingsRefused,
    load_credentials,
    load_settings,
    load_url,
)
from tests.unit.settings.event_table import EVENT_TABLE

YEARS_100 = "3153600000000"

# name, default, accepted texts, refused texts
TABLE = [
    ("DRIFTQ_BROKER_IN_FLIGHT_MAX", 10_000, ["1", "2147483647"], ["0", "-1", "2147483648", "many"]),
    ("DRIFTQ_BROKER_ACK_TIMEOUT_MS", 2_000, ["1", "43200000"], ["0", "43200001", "2s", "2000.0"]),
    ("DRIFTQ_BROKER_PARTITION_MESSAGES_MAX", 1_000_000, ["1", "2147483647"], ["0", "-5", "1e6"]),
    ("DRIFTQ_BROKER_PARTITION_BYTES_MAX", 1_073_741_824, ["1", "1152921504606846976"], ["0", "1GiB", ""]),
    ("DRIFTQ_BROKER_IDEMPOTENCY_TTL_MS", 600_000, ["1", YEARS_100], ["0", "-1", YEARS_100 + "0"]),
    ("DRIFTQ_BROKER_IDEMPOTENCY_KEYS_MAX", 20_000_000, ["1", "2147483647"], ["0", "20_000_000", " 1"]),
    ("DRIFTQ_BROKER_RETENTION_MS", 604_800_000, ["1", YEARS_100], ["0", "7d", "٣"]),
    ("DRIFTQ_BROKER_SEGMENT_BYTES", 67_108_864, ["65536", "1073741824"], ["0", "65535", "64M"]),
    ("DRIFTQ_BROKER_FREE_BYTES_MIN", 268_435_456, ["0", "1152921504606846976"], ["-1", "256M", ""]),
    ("DRIFTQ_IDEMPOTENCY_MISMATCH_MODE", "warn", ["warn", "error"], ["", "Error", "ignore"]),
    ("DRIFTQ_JOBS_RETRY_MAX_ATTEMPTS", 20, ["1", "10000"], ["0", "10001", "many"]),
    ("DRIFTQ_JOBS_RETRY_BASE_MS", 2_000, ["0", "3600000"], ["-1", "2s"]),
    ("DRIFTQ_JOBS_RETRY_CAP_MS", 3_600_000, ["2000", "31622400000"], ["-1", "31622400001"]),
    ("DRIFTQ_JOBS_RETRY_JITTER", "full", ["full", "none"], ["", "half"]),
    ("DRIFTQ_JOBS_KEPT_MS", 30 * 86_400_000, ["1", "1000"], ["0", "-1"]),
    (
        "DRIFTQ_URL",
        "http://127.0.0.1:8080",
        ["https://queue.example", "http://[::1]:9000", "http://h/prefix"],
        [
            "",
            "127.0.0.1:8080",
            "ftp://h",
            "http://",
            "http://h:99999",
            "http://h:0",
            "http://u@h",
            "http://h?a",
        ],
    ),
    ("DRIFTQ_DATA", "./driftq-data", ["/var/lib/driftq", "a b"], ["", "  ", "a\nb"]),
    (
        "DRIFTQ_ALLOWED_HOSTS",
        None,
        ["queue", "queue.example.org,db_1", "Queue."],
        ["", ",", "queue,", "queue:8080", "http://queue", "*", "two words", "a..b"],
    ),
    ("DRIFTQ_API_KEY", None, ["dq_0a1b_secret0"], []),
    ("DRIFTQ_CA_FILE", None, ["/etc/ca.pem"], ["", "a\nb"]),
    ("DRIFTQ_CLIENT_CERT", None, ["client.pem"], [""]),
    ("DRIFTQ_CLIENT_KEY", None, ["client.key"], [""]),
    ("DRIFTQ_COMMIT", "unknown", ["0123abc"], ["", "a\nb"]),
    ("DRIFTQ_HOST", "127.0.0.1", ["0.0.0.0", "::1", "queue"], ["", "a\nb"]),
    ("DRIFTQ_PORT", 8080, ["0", "65535"], ["", "-1", "65536", "tcp://10.0.0.1:80"]),
    ("DRIFTQ_PROFILE", "default", ["v1-dev"], ["", "dev"]),
    ("DRIFTQ_NO_WAL", "false", ["true"], ["", "1", "yes"]),
    ("DRIFTQ_FSYNC", "always", ["interval", "off"], ["", "never"]),
    ("DRIFTQ_ROUTER", None, ["module:attr"], [""]),
    ("DRIFTQ_ROUTER_RULES", None, ["rules.toml"], [""]),
    ("DRIFTQ_ROUTER_URL", None, ["http://127.0.0.1:9000/route"], [""]),
    ("DRIFTQ_ROUTER_TOPIC", None, ["orders,users"], [""]),
    ("DRIFTQ_ROUTER_TIMEOUT_MS", 1000, ["1", "2147483647"], ["0", "1s"]),
    ("DRIFTQ_INSECURE", "false", ["true"], ["", "1"]),
    ("DRIFTQ_TLS_CERT", None, ["server.pem"], [""]),
    ("DRIFTQ_TLS_KEY", None, ["server.key"], [""]),
    ("DRIFTQ_TLS_CLIENT_CA", None, ["ca.pem"], [""]),
    ("DRIFTQ_LOG_LEVEL", "info", ["debug", "warning", "error"], ["", "INFO", "loud"]),
    ("DRIFTQ_LOG_FORMAT", "text", ["json"], ["", "yaml"]),
    *EVENT_TABLE,
]


def test_the_table_is_whole_and_says_what_each_setting_is_for() -> None:
    assert [(spec.name, spec.default) for spec in SETTINGS] == [
        (name, default) for name, default, _, _ in TABLE
    ]
    assert all(spec.meaning and spec.kind.name and spec.kind.allowed for spec in SETTINGS)
    with_default = [spec for spec in SETTINGS if spec.default is not None]
    assert all(spec.kind.read(str(spec.default)) == spec.default for spec in with_default)


@pytest.mark.clause("N1")
@pytest.mark.parametrize(("name", "text"), [(name, text) for name, _, texts, _ in TABLE for text in texts])
def test_a_sound_value_is_in_force(name: str, text: str) -> None:
    settings = load_settings(environ={name: text})
    (setting,) = [setting for setting in settings.in_force if setting.spec.name == name]
    assert (str(setting.value), setting.source) == (text, SettingSource.ENVIRONMENT)


@pytest.mark.clause("N1")
@pytest.mark.parametrize(("name", "text"), [(name, text) for name, _, _, texts in TABLE for text in texts])
def test_a_value_that_makes_no_sense_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(SettingsRefused) as refused:
        load_settings(environ={name: text})
    (problem,) = refused.value.problems
    (spec,) = [spec for spec in SETTINGS if spec.name == name]
    assert str(problem) == f"{name} is {text!r}; it must be {spec.kind.allowed}"


@pytest.mark.clause("N1")
@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("DRIFTQ_BROKER_INFLIGHT_MAX", "DRIFTQ_BROKER_IN_FLIGHT_MAX"),
        ("DRIFTQ_BROKER_ACK_TIMEOUT", "DRIFTQ_BROKER_ACK_TIMEOUT_MS"),
        ("DRIFTQ_IDEMPOTENCY_MISMATCH", "DRIFTQ_IDEMPOTENCY_MISMATCH_MODE"),
        ("DRIFTQ_API_KEYS", "DRIFTQ_API_KEY"),
        ("DRIFTQ_API_KEY_FILE", "DRIFTQ_API_KEYS_FILE"),
        ("DRIFTQ_PROT", "DRIFTQ_PORT"),
        ("DRIFTQ_TLS_CERTIFICATE", "DRIFTQ_TLS_CERT"),
        ("DRIFTQ_DATABASEURL", "DRIFTQ_DATABASE_URL"),
        ("EVENT_PUBLISHER_BATCHSIZE", "EVENT_PUBLISHER_BATCH_SIZE"),
        ("EVENT_STORE_SEQUENCE_ALLOCATOR", "EVENT_STORE_SEQUENCE_ALLOCATOR_MODE"),
        ("PROCESSED_EVENT_LEASE_TIMEOUT", "PROCESSED_EVENT_LEASE_TIMEOUT_SECONDS"),
        ("PROJECTION_WORKER_MAX_RETRY", "PROJECTION_WORKER_MAX_RETRIES"),
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest_one(name: str, nearest: str) -> None:
    with pytest.raises(SettingsRefused, match=f"{name} is not a setting; did you mean {nearest}?"):
        load_settings(environ={name: "1"})


def test_names_of_others_are_left_alone() -> None:
    others = {
        "DRIFTQ_SOMETHING": "1",
        "BROKER": "x",
        "EVENT_STORE_PASSWORD": "y",
        "DRIFTQ_TEST_S3_ENDPOINT": "z",
    }
    kubernetes = {"DRIFTQ_SERVICE_HOST": "10.0.0.1", "DRIFTQ_PORT_8080_TCP": "tcp://10.0.0.1:8080"}
    assert load_settings(environ=others | kubernetes) == load_settings(environ={})


@pytest.mark.clause("N1", "Y4")
def test_a_key_that_is_refused_is_not_shown() -> None:
    with pytest.raises(SettingsRefused) as refused:
        load_settings(environ={"DRIFTQ_API_KEY": "dq_a_b c"})
    assert str(refused.value) == "DRIFTQ_API_KEY is '***'; it must be a key like dq_<id>_<secret>"


@pytest.mark.clause("N1")
def test_the_environment_names_the_profile_and_an_argument_wins() -> None:
    environ = {"DRIFTQ_PROFILE": "v1-dev"}
    assert load_settings(environ=environ).limits.in_flight_max == 2
    assert load_settings(PROFILES["default"], environ).limits.in_flight_max == 10_000


@pytest.mark.clause("N1")
def test_every_flag_of_serve_has_a_variable() -> None:
    commands: Any = get_command(app)
    flags = {option for parameter in commands.commands["serve"].params for option in parameter.opts}
    names = {spec.name for spec in SETTINGS}
    for flag in flags - {"--help"}:
        name = "DRIFTQ_" + flag.removeprefix("--").replace("-", "_").upper()
        assert {"DRIFTQ_API_KEYS": "DRIFTQ_API_KEYS_FILE"}.get(name, name) in names


@pytest.mark.clause("Y4")
def test_credentials_that_are_given_win_and_are_not_mixed() -> None:
    environ = {
        "DRIFTQ_API_KEY": "dq_e",
        "DRIFTQ_CA_FILE": "ca",
        "DRIFTQ_CLIENT_CERT": "c",
        "DRIFTQ_CLIENT_KEY": "k",
    }
    found = load_credentials(environ=environ)
    assert (found.api_key, found.ca_file, found.client_cert, found.client_key) == ("dq_e", "ca", "c", "k")
    given = load_credentials(api_key="dq_g", client_cert="mine", environ=environ)
    assert (given.api_key, given.ca_file, given.client_cert, given.client_key) == ("dq_g", "ca", "mine", None)
    assert "dq_g" not in repr(given)


def test_all_problems_are_told_at_once() -> None:
    environ = {"DRIFTQ_BROKER_IN_FLIGHT_MAX": "0", "DRIFTQ_URL": "?", "DRIFTQ_BROKER_X": "1"}
    with pytest.raises(SettingsRefused) as refused:
        load_settings(environ=environ)
    assert len(refused.value.problems) == 3


def test_a_client_is_not_stopped_by_the_settings_of_a_broker() -> None:
    environ = {"DRIFTQ_URL": "http://queue:1/", "DRIFTQ_BROKER_IN_FLIGHT_MAX": "0"}
    assert load_url(environ=environ) == "http://queue:1"
    assert load_url("http://other:2", environ) == "http://other:2"
    with pytest.raises(SettingsRefused, match="--url is 'queue'; it must be an address like"):
        load_url("queue", environ)


def test_mismatch_mode_reaches_the_limits() -> None:
    assert load_settings(environ={}).limits.refuse_mismatch is False
    assert load_settings(environ={"DRIFTQ_IDEMPOTENCY_MISMATCH_MODE": "error"}).limits.refuse_mismatch is True


@pytest.mark.clause("N2")
def test_profiles_differ_in_limits_only() -> None:
    assert list(PROFILES) == ["default", "v1-dev"]
    limits = load_settings(PROFILES["v1-dev"], {}).limits
    assert (limits.in_flight_max, limits.ack_timeout_ms) == (2, 2_000)
    assert (limits.partition_messages_max, limits.partition_bytes_max) == (2, 20)
    assert (limits.idempotency_ttl_ms, limits.count_unread) == (600_000, True)
    ordinary = load_settings(PROFILES["default"], {}).limits
    assert (ordinary.in_flight_max, ordinary.partition_messages_max) == (10_000, 1_000_000)
    assert ordinary.count_unread is False


@pytest.mark.clause("N2")
def test_the_environment_wins_over_the_profile() -> None:
    settings = load_settings(PROFILES["v1-dev"], {"DRIFTQ_BROKER_IN_FLIGHT_MAX": "7"})
    assert (settings.limits.in_flight_max, settings.limits.partition_messages_max) == (7, 2)
    sources = {setting.spec.name: setting.source for setting in settings.in_force}
    assert sources["DRIFTQ_BROKER_IN_FLIGHT_MAX"] is SettingSource.ENVIRONMENT
    assert sources["DRIFTQ_BROKER_PARTITION_BYTES_MAX"] is SettingSource.PROFILE
    assert sources["DRIFTQ_BROKER_RETENTION_MS"] is SettingSource.DEFAULT

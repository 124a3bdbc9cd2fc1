"""Every setting, against a table written by hand: its name, default, accepted and refused texts."""

import pytest

from driftq.settings import PROFILES, SETTINGS, SettingSource, SettingsRefused, load_settings, load_url
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
    ("DRIFTQ_COMMIT", "unknown", ["0123abc"], ["", "a\nb"]),
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
    ],
)
def test_a_misspelt_name_is_refused_with_the_nearest_one(name: str, nearest: str) -> None:
    with pytest.raises(SettingsRefused, match=f"{name} is not a setting; did you mean {nearest}?"):
        load_settings(environ={name: "1"})


def test_names_of_others_are_left_alone() -> None:
    assert load_settings(environ={"DRIFTQ_SOMETHING": "1", "BROKER": "x"}) == load_settings(environ={})


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

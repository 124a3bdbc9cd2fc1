"""Options of Kafka's clients: any of them by name, none of ours, and no secret in sight."""

import json

import pytest
from typer.testing import CliRunner

from driftq.cli.app import app
from driftq.model.options.kafka import KafkaOptions
from driftq.pipeline.runtime.reports import secrets_of
from driftq.settings import SettingsRefused, load_settings

SASL = {
    "DRIFTQ_TRANSPORT": "kafka",
    "DRIFTQ_KAFKA_BOOTSTRAP": "a:9092",
    "DRIFTQ_KAFKA_SECURITY_PROTOCOL": "SASL_SSL",
    "DRIFTQ_KAFKA_SASL_USERNAME": "driftq",
    "DRIFTQ_KAFKA_SASL_PASSWORD": "hunter2",
}


@pytest.mark.clause("N1", "Z4")
def test_any_option_of_a_client_is_passed_on_with_dots() -> None:
    kafka = load_settings(environ=SASL | {"DRIFTQ_KAFKA_TOPIC_REPLICAS": "3"}).kafka
    assert kafka == KafkaOptions(
        bootstrap="a:9092",
        options=(
            ("sasl.password", "hunter2"),
            ("sasl.username", "driftq"),
            ("security.protocol", "SASL_SSL"),
        ),
        topic_replicas=3,
    )
    assert load_settings(environ={}).kafka == KafkaOptions()


def test_a_certificate_of_several_lines_is_passed_on() -> None:
    pem = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
    assert load_settings(environ={"DRIFTQ_KAFKA_SSL_CA_PEM": pem}).kafka.options == (("ssl.ca.pem", pem),)


@pytest.mark.clause("N1", "U7")
@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("DRIFTQ_KAFKA_ACKS", "acks"),
        ("DRIFTQ_KAFKA_ENABLE_IDEMPOTENCE", "enable.idempotence"),
        ("DRIFTQ_KAFKA_ISOLATION_LEVEL", "isolation.level"),
        ("DRIFTQ_KAFKA_PARTITIONER", "partitioner"),
        ("DRIFTQ_KAFKA_TRANSACTIONAL_ID", "transactional.id"),
    ],
)
def test_what_the_guarantees_rest_on_cannot_be_set(name: str, option: str) -> None:
    with pytest.raises(
        SettingsRefused, match=f"{name} is 'x'; it must be unset: DriftQ sets {option} itself"
    ):
        load_settings(environ={name: "x"})


def test_an_empty_option_is_refused_by_name() -> None:
    with pytest.raises(SettingsRefused, match="DRIFTQ_KAFKA_SASL_PASSWORD is ''; it must be a text"):
        load_settings(environ={"DRIFTQ_KAFKA_SASL_PASSWORD": ""})


def test_a_secret_is_in_no_text() -> None:
    options = load_settings(environ=SASL).pipeline()
    assert "hunter2" not in repr(options)
    assert "hunter2" in secrets_of(options)
    with pytest.raises(SettingsRefused) as refused:
        load_settings(environ={"DRIFTQ_KAFKA_SASL_PASSWORD": "hunter2\0"})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("as_json", [True, False])
def test_config_lists_the_options_without_secrets(as_json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    result = CliRunner().invoke(app, ["config", *(["--json"] if as_json else [])], env=dict(SASL))
    assert result.exit_code == 0, result.output
    assert "hunter2" not in result.output
    assert "SASL_SSL" in result.output
    if as_json:
        listed = {one["name"]: one["value"] for one in json.loads(result.output)["settings"]}
        assert listed["DRIFTQ_KAFKA_SASL_PASSWORD"] == "***"
        assert listed["DRIFTQ_KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"

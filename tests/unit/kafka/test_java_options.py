"""Options of Kafka's clients in the names of the Java client, which Spark's Kafka source uses."""

from pathlib import Path

import pytest

from driftq.errors import InvalidArgument
from driftq.kafka.java_options import java_options, spark_options
from driftq.model.options.kafka import KafkaOptions

KEY = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n"
OLD_KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIID\n-----END CERTIFICATE-----\n"


def kafka(**options: str) -> KafkaOptions:
    given = tuple((name.replace("_", "."), value) for name, value in options.items())
    return KafkaOptions(bootstrap="a:9092,b:9092", options=given)


@pytest.mark.clause("Z4")
def test_servers_alone_are_enough() -> None:
    assert spark_options(kafka()) == {"kafka.bootstrap.servers": "a:9092,b:9092"}


@pytest.mark.clause("Z4")
@pytest.mark.parametrize(
    ("mechanism", "module"),
    [("PLAIN", "plain.PlainLoginModule"), ("scram-sha-512", "scram.ScramLoginModule")],
)
def test_a_login_becomes_a_jaas_line_that_no_password_breaks(mechanism: str, module: str) -> None:
    given = kafka(
        security_protocol="sasl_ssl", sasl_mechanism=mechanism, sasl_username="u", sasl_password='a"b\\c'
    )
    found = java_options(given)
    assert found["security.protocol"] == "SASL_SSL"
    assert found["sasl.mechanism"] == mechanism.upper()
    assert found["sasl.jaas.config"] == (
        f'org.apache.kafka.common.security.{module} required username="u" password="a\\"b\\\\c";'
    )
    assert "sasl.password" not in found


@pytest.mark.clause("Z4")
def test_certificates_become_stores_with_their_content(tmp_path: Path) -> None:
    for name, content in (("ca", CERTIFICATE), ("key", KEY), ("cert", CERTIFICATE)):
        (tmp_path / name).write_text(content)
    found = java_options(
        kafka(
            security_protocol="SSL",
            ssl_ca_location=str(tmp_path / "ca"),
            ssl_key_location=str(tmp_path / "key"),
            ssl_certificate_location=str(tmp_path / "cert"),
            ssl_key_password="p",
            ssl_endpoint_identification_algorithm="none",
        )
    )
    assert found == {
        "bootstrap.servers": "a:9092,b:9092",
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CERTIFICATE,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": KEY,
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.key.password": "p",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_names_that_differ_are_translated_and_those_of_producers_left_out() -> None:
    found = java_options(kafka(fetch_wait_max_ms="9", linger_ms="5", debug="all", client_id="c"))
    assert found == {"bootstrap.servers": "a:9092,b:9092", "fetch.max.wait.ms": "9", "client.id": "c"}


@pytest.mark.clause("Z4")
@pytest.mark.parametrize(
    ("options", "variable"),
    [
        ({"sasl_oauthbearer_method": "oidc"}, "DRIFTQ_KAFKA_SASL_OAUTHBEARER_METHOD"),
        ({"security_protocol": "SASL_SSL"}, "DRIFTQ_KAFKA_SASL_MECHANISM"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, "DRIFTQ_KAFKA_SASL_USERNAME"),
        (
            {"enable_ssl_certificate_verification": "false"},
            "DRIFTQ_KAFKA_ENABLE_SSL_CERTIFICATE_VERIFICATION",
        ),
        ({"ssl_ca_location": "/none"}, "DRIFTQ_KAFKA_SSL_CA_LOCATION"),
        ({"ssl_key_pem": KEY}, "DRIFTQ_KAFKA_SSL_CERTIFICATE_LOCATION"),
        ({"ssl_key_pem": OLD_KEY, "ssl_certificate_pem": CERTIFICATE}, "DRIFTQ_KAFKA_SSL_KEY_LOCATION"),
    ],
)
def test_what_java_cannot_have_is_refused_by_its_variable(options: dict[str, str], variable: str) -> None:
    with pytest.raises(InvalidArgument, match=f"^{variable}: "):
        java_options(kafka(**options))

"""The options of librdkafka in the names of Kafka's Java client, which Spark's Kafka source reads with.

Most names are the same. Passwords and certificates are not: Java takes a login as a JAAS line, and PEM files
as trust and key stores. An option without a counterpart is refused by the name of its variable; one that has
a meaning for producers alone, or for librdkafka's own workings, is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from driftq.errors import InvalidArgument
from driftq.kafka.clients import require_kafka
from driftq.model.options.kafka import KafkaOptions, variable_name

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_LOGIN_MODULES = {"PLAIN": _PLAIN, "SCRAM-SHA-256": _SCRAM, "SCRAM-SHA-512": _SCRAM}
_SAME = frozenset(
    {
        "check.crcs",
        "client.dns.lookup",
        "client.id",
        "client.rack",
        "connections.max.idle.ms",
        "fetch.max.bytes",
        "fetch.min.bytes",
        "max.partition.fetch.bytes",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.ms",
        "sasl.kerberos.service.name",
        "ssl.key.password",
        "ssl.keystore.location",
        "ssl.keystore.password",
    }
)
_RENAMED = {
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.timeout.ms": "request.timeout.ms",
}
_LEFT_OUT = re.compile(
    r"batch\..*|broker\.address\..*|compression\..*|debug|delivery\..*|linger\.ms|log\..*|max\.in\.flight.*"
    r"|message\..*|queue\..*|request\.timeout\.ms|retries|socket\.(keepalive|nagle|max)\..*|statistics\..*"
    r"|sticky\..*|transaction\.timeout\.ms"
)
_PEM_KEY = re.compile(r"-----BEGIN (ENCRYPTED )?PRIVATE KEY-----")


def java_options(options: KafkaOptions) -> dict[str, str]:
    """Names and values for Kafka's Java client; raises InvalidArgument for what has no counterpart there."""
    given = dict(options.options)
    found = {"bootstrap.servers": require_kafka(options)}
    for part in _PARTS:
        found |= part(given)
    for name, value in given.items():
        if name in _SAME:
            found[name] = value
        elif name in _RENAMED:
            found[_RENAMED[name]] = value
        elif name not in _MAPPED and not _LEFT_OUT.fullmatch(name):
            raise _refused(name, "Spark's Kafka source has no such option")
    return found


def spark_options(options: KafkaOptions) -> dict[str, str]:
    """The same for `spark.readStream.format("kafka")`, where each name begins with `kafka.`."""
    return {f"kafka.{name}": value for name, value in java_options(options).items()}


def _security(given: dict[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if "security.protocol" in given:
        found["security.protocol"] = given["security.protocol"].upper()
    if given.get("enable.ssl.certificate.verification", "true").lower() != "true":
        raise _refused(
            "enable.ssl.certificate.verification", "Spark's Kafka source always verifies certificates"
        )
    match given.get("ssl.endpoint.identification.algorithm"):
        case "none":
            found["ssl.endpoint.identification.algorithm"] = ""
        case str() as algorithm:
            found["ssl.endpoint.identification.algorithm"] = algorithm
        case None:
            pass
    return found


def _login(given: dict[str, str]) -> dict[str, str]:
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms"))
    user, password = given.get("sasl.username"), given.get("sasl.password")
    if not given.get("security.protocol", "").upper().startswith("SASL_"):
        return {}
    mechanism = "GSSAPI" if mechanism is None else mechanism.upper()
    if mechanism not in _LOGIN_MODULES:
        must_be = f"{', '.join(_LOGIN_MODULES)}: Spark's Kafka source gets no other login from here"
        raise _refused("sasl.mechanism", f"it must be one of {must_be}")
    if user is None or password is None:
        raise _refused("sasl.username" if user is None else "sasl.password", "the login needs it")
    jaas = f"{_LOGIN_MODULES[mechanism]} required username={_quoted(user)} password={_quoted(password)};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _trust(given: dict[str, str]) -> dict[str, str]:
    if "ssl.ca.pem" in given:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": given["ssl.ca.pem"]}
    if "ssl.ca.location" in given:
        return {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": _file(given, "ssl.ca.location"),
        }
    return {}


def _key(given: dict[str, str]) -> dict[str, str]:
    """The client's own certificate. Its files are read here: a task on another machine may not have them."""
    if "ssl.keystore.location" in given:
        return {"ssl.keystore.type": "PKCS12"}
    parts: dict[str, str] = {}
    for kind, name in (("key", "ssl.keystore.key"), ("certificate", "ssl.keystore.certificate.chain")):
        if f"ssl.{kind}.pem" in given:
            parts[name] = given[f"ssl.{kind}.pem"]
        elif f"ssl.{kind}.location" in given:
            parts[name] = _file(given, f"ssl.{kind}.location")
    if not parts:
        return {}
    if len(parts) == 1:
        missing = "ssl.key.location" if "ssl.keystore.key" not in parts else "ssl.certificate.location"
        raise _refused(missing, "a client's certificate and its key go together")
    if not _PEM_KEY.search(parts["ssl.keystore.key"]):
        raise _refused(
            "ssl.key.location", "Spark's Kafka source reads keys in PKCS #8 (BEGIN PRIVATE KEY) only"
        )
    return {"ssl.keystore.type": "PEM", **parts}


def _file(given: dict[str, str], option: str) -> str:
    try:
        return Path(given[option]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise _refused(option, f"the file cannot be read ({type(problem).__name__})") from None


def _refused(option: str, problem: str) -> InvalidArgument:
    return InvalidArgument(variable_name(option), problem)


_PARTS: tuple[Callable[[dict[str, str]], dict[str, str]], ...] = (_security, _login, _trust, _key)
_MAPPED = frozenset(
    {
        "enable.ssl.certificate.verification",
        "sasl.mechanism",
        "sasl.mechanisms",
        "sasl.password",
        "sasl.username",
        "security.protocol",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.pem",
    }
)

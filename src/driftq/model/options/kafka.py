"""How to reach Kafka, as plain data: nothing here needs a Kafka client."""

import re
from dataclasses import dataclass

PROVIDED = "provided"
VARIABLE_PREFIX = "DRIFTQ_KAFKA_"
_HARMLESS = re.compile(
    r"security\.protocol|sasl\.mechanisms?|sasl\.username|client\.(id|rack)|debug|log\.level"
    r"|compression\..*|socket\..*|broker\.address\..*|ssl\.endpoint\.identification\.algorithm"
    r"|enable\.ssl\.certificate\.verification|.*\.(location|ms|k?bytes|messages|size|backoff|retries)"
)
_SECRET_WORDS = ("password", "passphrase", "secret", "pem", "token", "jaas", "credential", "private")
_LEFT_ALONE = 3
"""A value this short is no secret, unless its option is named like one."""


def option_name(variable: str) -> str:
    """`DRIFTQ_KAFKA_SECURITY_PROTOCOL` sets the client's option `security.protocol`."""
    return variable.removeprefix(VARIABLE_PREFIX).lower().replace("_", ".")


def variable_name(option: str) -> str:
    """The environment variable of a client's option."""
    return VARIABLE_PREFIX + option.upper().replace(".", "_")


def is_secret(option: str) -> bool:
    """Whether the value of this client option is never shown: a misspelt password is one as well."""
    return _HARMLESS.fullmatch(option) is None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class KafkaOptions:
    """The servers, the options of the clients, and how topics are created. Its text shows no value."""

    bootstrap: str | None = None
    """None where no Kafka is configured."""
    options: tuple[tuple[str, str], ...] = ()
    """Name and value for each client, in librdkafka's names such as `security.protocol`."""
    topic_partitions: int = 4
    topic_replicas: int | None = None
    """None for the default of the Kafka servers."""
    spark_jars: str | None = None
    """The jars of Spark's connector, with commas; PROVIDED where Spark has them, None to fetch them."""

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self.options)
        return f"KafkaOptions({self.bootstrap!r}, options: {names or 'none'})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The values that no log and no error may contain."""
        return tuple(
            value
            for name, value in self.options
            if is_secret(name) and (len(value) > _LEFT_ALONE or any(word in name for word in _SECRET_WORDS))
        )

    def clean(self, text: str) -> str:
        """The text without secrets."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

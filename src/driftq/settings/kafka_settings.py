"""The settings of Kafka: a few of our own, and any `DRIFTQ_KAFKA_<OPTION>` for the clients.

`DRIFTQ_KAFKA_SASL_USERNAME` becomes the option `sasl.username`. Only Kafka's client knows its options, so an
unknown one is refused when a client is opened.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from driftq.model.options.kafka import VARIABLE_PREFIX, KafkaOptions, is_secret, option_name
from driftq.settings import event_table as table
from driftq.settings.spec import Problem, SettingSpec, Value

_OWN = (
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.gapless.guarantee",
    "enable.idempotence",
    "group.id",
    "isolation.level",
    "metadata.broker.list",
    "partitioner",
    "request.required.acks",
    "transactional.id",
)
"""Options that the guarantees rest on: DriftQ sets them itself."""
_VALUE_MAX = 65_536


@dataclass(frozen=True, slots=True)
class ClientOption:
    """A text for Kafka's clients, which may have several lines."""

    name: str = "text"
    allowed: str = "a text that is not empty"

    def read(self, text: str) -> str:
        if not text.strip() or len(text) > _VALUE_MAX or "\0" in text:
            raise ValueError(self.allowed)
        return text


def client_option_specs(environ: Mapping[str, str]) -> list[SettingSpec]:
    """One specification for each option of a Kafka client in the environment."""
    own = {spec.name for spec in table.EVENT_SETTINGS}
    names = sorted(name for name in environ if name.startswith(VARIABLE_PREFIX) and name not in own)
    return [
        SettingSpec(
            name=name,
            default=None,
            kind=ClientOption(),
            meaning=f"passed to Kafka's clients as {option_name(name)}",
            secret=is_secret(option_name(name)),
        )
        for name in names
    ]


def option_problems(specs: Sequence[SettingSpec], values: Mapping[str, Value | None]) -> Iterator[Problem]:
    """Options that are not the user's to set."""
    for spec in specs:
        option = option_name(spec.name)
        if option in _OWN:
            yield Problem(spec.name, str(values[spec.name]), f"unset: DriftQ sets {option} itself")


def kafka_options(specs: Sequence[SettingSpec], values: Mapping[str, Value | None]) -> KafkaOptions:
    bootstrap, replicas = values[table.KAFKA_BOOTSTRAP.name], values[table.KAFKA_TOPIC_REPLICAS.name]
    spark_jars = values[table.SPARK_KAFKA_JARS.name]
    partitions = values[table.KAFKA_TOPIC_PARTITIONS.name]
    assert partitions is not None  # It has a default.
    return KafkaOptions(
        bootstrap=None if bootstrap is None else str(bootstrap),
        options=tuple((option_name(spec.name), str(values[spec.name])) for spec in specs),
        topic_partitions=int(partitions),
        topic_replicas=None if replicas is None else int(replicas),
        spark_jars=None if spark_jars is None else str(spark_jars),
    )

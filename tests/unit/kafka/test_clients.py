"""Clients of Kafka that cannot be opened, each with one sentence that says what to change."""

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest

from driftq.errors import InvalidArgument
from driftq.kafka.clients import Complaints, open_admin, open_consumer, open_producer
from driftq.kafka.cluster import KafkaCluster
from driftq.model.options.kafka import KafkaOptions

OPENERS = [open_admin, open_consumer, open_producer]


@pytest.mark.clause("N1", "Z4")
@pytest.mark.parametrize("opener", OPENERS)
def test_an_option_that_no_client_has_is_refused_by_its_variable(opener: Callable[..., Any]) -> None:
    options = KafkaOptions(bootstrap="127.0.0.1:1", options=(("sasl.pasword", "hunter2"),))
    with pytest.raises(InvalidArgument) as refused:
        opener(options, Complaints())
    assert str(refused.value) == "DRIFTQ_KAFKA_SASL_PASWORD: Kafka's client has no option sasl.pasword"


@pytest.mark.clause("N1")
def test_a_value_that_makes_no_sense_is_refused_without_the_secret() -> None:
    given = (("security.protocol", "hunter2"), ("sasl.password", "hunter2"))
    with pytest.raises(InvalidArgument, match=r"^DRIFTQ_KAFKA_SECURITY_PROTOCOL: ") as refused:
        open_producer(KafkaOptions(bootstrap="127.0.0.1:1", options=given), Complaints())
    assert "hunter2" not in str(refused.value)


def test_an_option_under_another_name_is_named_as_the_client_does() -> None:
    options = KafkaOptions(bootstrap="127.0.0.1:1", options=(("linger.ms", "-5"),))
    with pytest.raises(InvalidArgument, match=r"DRIFTQ_KAFKA_\*: .*queue.buffering.max.ms"):
        open_producer(options, Complaints())


def test_without_servers_nothing_is_opened() -> None:
    with pytest.raises(InvalidArgument, match="DRIFTQ_KAFKA_BOOTSTRAP: name the Kafka servers"):
        KafkaCluster(KafkaOptions())


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def without_kafka(name: str, package: str | None = None) -> Any:
        return None if name == "confluent_kafka" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_kafka)
    with pytest.raises(InvalidArgument, match=r"Kafka needs confluent-kafka: pip install 'driftq\[kafka\]'"):
        KafkaCluster(KafkaOptions(bootstrap="127.0.0.1:1"))

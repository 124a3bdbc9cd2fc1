"""Errors of Kafka's client: which of them pass by themselves, and as what they reach the caller."""

import pytest

from driftq.errors import KafkaRefused, KafkaUnavailable
from driftq.kafka.clients import Complaints
from driftq.kafka.translation import is_transient_error, translate
from driftq.model.options.kafka import KafkaOptions

OPTIONS = KafkaOptions(bootstrap="127.0.0.1:1")


@pytest.mark.clause("Z4")
@pytest.mark.parametrize(
    "name",
    ["UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH", "OFFSET_NOT_AVAILABLE", "NOT_LEADER_FOR_PARTITION"],
)
def test_a_broker_that_has_just_started_is_asked_again(name: str) -> None:
    """It does not know its partitions' leaders yet; its client does not say that these errors pass."""
    from confluent_kafka import KafkaError

    error = KafkaError(getattr(KafkaError, name))
    assert is_transient_error(error)
    assert isinstance(translate(OPTIONS, error, complaints=Complaints()), KafkaUnavailable)


@pytest.mark.clause("Z4")
@pytest.mark.parametrize("name", ["MSG_SIZE_TOO_LARGE", "INVALID_PARTITIONS"])
def test_a_refusal_that_stays_is_not_repeated(name: str) -> None:
    from confluent_kafka import KafkaError

    error = KafkaError(getattr(KafkaError, name))
    assert not is_transient_error(error)
    assert isinstance(translate(OPTIONS, error, complaints=Complaints()), KafkaRefused)

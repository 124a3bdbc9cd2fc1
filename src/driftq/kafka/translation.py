"""From the errors of Kafka's client to ours: one sentence each, without secrets."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

from driftq.errors import (
    DriftQError,
    KafkaAccessDenied,
    KafkaLoginRefused,
    KafkaRefused,
    KafkaTopicNotFound,
    KafkaUnavailable,
)
from driftq.kafka.clients import Complaints
from driftq.model.options.kafka import KafkaOptions

if TYPE_CHECKING:
    from confluent_kafka.cimpl import KafkaError


@cache
def _away() -> frozenset[int]:
    """Codes of a server that cannot be reached, or is not ready."""
    from confluent_kafka import KafkaError as Code

    return frozenset(
        {
            Code._ALL_BROKERS_DOWN,
            Code._DESTROY,
            Code._MSG_TIMED_OUT,
            Code._RESOLVE,
            Code._TIMED_OUT,
            Code._TIMED_OUT_QUEUE,
            Code._TRANSPORT,
            Code._WAIT_COORD,
            Code.BROKER_NOT_AVAILABLE,
            Code.COORDINATOR_LOAD_IN_PROGRESS,
            Code.COORDINATOR_NOT_AVAILABLE,
            # A broker that has just started knows older leaders than the client does, and the reverse.
            Code.FENCED_LEADER_EPOCH,
            Code.KAFKA_STORAGE_ERROR,
            Code.LEADER_NOT_AVAILABLE,
            Code.LISTENER_NOT_FOUND,
            Code.NETWORK_EXCEPTION,
            Code.NOT_CONTROLLER,
            Code.NOT_COORDINATOR,
            Code.NOT_ENOUGH_REPLICAS,
            Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            Code.NOT_LEADER_FOR_PARTITION,
            Code.OFFSET_NOT_AVAILABLE,
            Code.REPLICA_NOT_AVAILABLE,
            Code.REQUEST_TIMED_OUT,
            Code.UNKNOWN_LEADER_EPOCH,
        }
    )


@cache
def _login() -> frozenset[int]:
    from confluent_kafka import KafkaError as Code

    return frozenset(
        {
            Code._AUTHENTICATION,
            Code._SSL,
            Code.SASL_AUTHENTICATION_FAILED,
            Code.UNSUPPORTED_SASL_MECHANISM,
            Code.ILLEGAL_SASL_STATE,
        }
    )


@cache
def _denied() -> frozenset[int]:
    from confluent_kafka import KafkaError as Code

    return frozenset(
        {
            Code.CLUSTER_AUTHORIZATION_FAILED,
            Code.GROUP_AUTHORIZATION_FAILED,
            Code.TOPIC_AUTHORIZATION_FAILED,
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        }
    )


def is_unknown_topic(error: KafkaError) -> bool:
    from confluent_kafka import KafkaError as Code

    return error.code() in (Code.UNKNOWN_TOPIC_OR_PART, Code._UNKNOWN_TOPIC, Code.UNKNOWN_TOPIC_ID)


def is_transient_error(error: KafkaError) -> bool:
    """Whether the same request may succeed in a moment: a new topic, for one, gets its leaders late."""
    return error.retriable() or error.code() in _away()


def translate(
    options: KafkaOptions, error: KafkaError, *, complaints: Complaints, topic: str | None = None
) -> DriftQError:
    """Our error for an error of the client; one of a server that is away is told with its reason."""
    bootstrap = str(options.bootstrap)
    if error.code() in _away():
        error = complaints.last() or error  # The call only timed out; this is why.
    cause = options.clean(error.str() or error.name())
    if error.code() in _login():
        return KafkaLoginRefused(bootstrap, cause=cause)
    if error.code() in _denied():
        return KafkaAccessDenied(bootstrap, cause=cause)
    if topic is not None and is_unknown_topic(error):
        return KafkaTopicNotFound(topic)
    if is_transient_error(error):
        return KafkaUnavailable(bootstrap, cause=cause)
    return KafkaRefused(bootstrap, cause=cause)


@contextmanager
def translated(options: KafkaOptions, complaints: Complaints, *, topic: str | None = None) -> Iterator[None]:
    """Raise our errors for those of the client."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as failed:
        raise translate(options, failed.args[0], complaints=complaints, topic=topic) from None

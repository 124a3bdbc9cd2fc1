"""What a query reads of Kafka, as it travels through Spark: one option, because it may hold a password."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from driftq.model.options.kafka import KafkaOptions
from driftq.pipeline.source.offsets import Offsets
from driftq.pipeline.transport.port import TopicSubscription

OPTION = "secret"
"""Spark shows options in plans, except those that are named like this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSourceOptions:
    """Topics by their identities, where they begin, and how much is read at once."""

    kafka: KafkaOptions
    subscription: TopicSubscription
    identities: dict[str, str]
    """The topics when the query started. Offsets mean nothing for another topic of the same name."""
    starting: Offsets
    """A partition that is not named is read from its oldest message."""
    messages_max: int
    """In one micro-batch."""
    newest_by: str
    """`aggregate_id` or `key`: what supersedes a message."""


_decode = msgspec.json.Decoder(KafkaSourceOptions).decode


def as_options(options: KafkaSourceOptions) -> dict[str, str]:
    """For `options(**…)` of the format."""
    return {OPTION: msgspec.json.encode(options).decode()}


def read_kafka_options(given: Mapping[str, str]) -> KafkaSourceOptions:
    return _decode(given[OPTION])

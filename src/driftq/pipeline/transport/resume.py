"""Where a reader goes on, given the positions it stored and the topics as they are now. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from driftq.pipeline.transport.port import Transport
from driftq.sinks import TopicPartition

ADOPTED_BY = "driftq/"
"""Positions without an identity come from earlier versions, which had no other transport."""


def resume_offsets(
    applied: Mapping[TopicPartition, int], identities: Mapping[str, str]
) -> dict[TopicPartition, int]:
    """The next offset of each known partition. Positions of other topics under the same name do not count."""
    following: dict[TopicPartition, int] = {}
    for place, offset in applied.items():
        identity = identities.get(place.topic)
        if identity is None or place.identity not in (identity, ""):
            continue
        here = TopicPartition(place.topic, place.partition, identity)
        if place.identity == identity:
            following[here] = offset + 1
        elif identity.startswith(ADOPTED_BY) or not identity:
            following.setdefault(here, offset + 1)
    return following


def by_topic(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """As Spark's sources take offsets; partitions are texts there."""
    found: dict[str, dict[str, int]] = {}
    for place, offset in offsets.items():
        found.setdefault(place.topic, {})[str(place.partition)] = offset
    return found


def topics_started_over(applied: Mapping[TopicPartition, int], identities: Mapping[str, str]) -> set[str]:
    """Topics of which only another one of the same name was read, and whose offsets do not go on behind it.

    A DriftQ server continues the offsets of a deleted topic; another server and Kafka begin at 0.
    """
    known: dict[str, set[str]] = {}
    for place in applied:
        known.setdefault(place.topic, set()).add(place.identity)
    return {
        topic
        for topic, read in known.items()
        if (identity := identities.get(topic)) is not None
        and identity not in read
        and not any(_continues(identity, earlier) for earlier in read)
    }


def _continues(identity: str, earlier: str) -> bool:
    if not identity.startswith(ADOPTED_BY):
        return not identity
    return not earlier or identity.rpartition("/")[0] == earlier.rpartition("/")[0]


def identified(
    positions: Mapping[TopicPartition, int], identities: dict[str, str], transport: Transport
) -> dict[TopicPartition, int]:
    """The positions of a batch under the identities that its topics had when the query started."""
    for topic in {place.topic for place in positions}.difference(identities):
        identities[topic] = transport.late_identity(topic)
    return {
        TopicPartition(place.topic, place.partition, identities[place.topic]): offset
        for place, offset in positions.items()
    }

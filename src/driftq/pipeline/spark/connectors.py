"""Spark's Kafka connector for each version of Spark: the one table of its coordinates.

A connector is built for one minor version of Spark. Each row is a complete set: its jars are fetched without
what they depend on, since Spark itself has the rest. requirements/maven pins the same sets for the tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from driftq.errors import SparkUnusable

_SOURCE = "org.apache.spark:spark-sql-kafka-0-10_2.13"
_TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"
_CLIENTS = "org.apache.kafka:kafka-clients"
_POOL = "org.apache.commons:commons-pool2"


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConnector:
    """The versions of the four artifacts that read Kafka from Spark."""

    source: str
    tokens: str
    clients: str
    pool: str

    @property
    def coordinates(self) -> tuple[str, ...]:
        versions = {_SOURCE: self.source, _TOKENS: self.tokens, _CLIENTS: self.clients, _POOL: self.pool}
        return tuple(f"{artifact}:{version}" for artifact, version in versions.items())

    def __str__(self) -> str:
        mixed = "" if self.source == self.tokens else f" with the token provider of {self.tokens}"
        return f"spark-sql-kafka-0-10_2.13 {self.source}{mixed}, kafka-clients {self.clients}"


CONNECTORS = {
    "4.0": KafkaConnector(source="4.0.0", tokens="4.0.0", clients="3.9.0", pool="2.12.0"),
    "4.1": KafkaConnector(source="4.1.1", tokens="4.0.0", clients="3.9.1", pool="2.12.1"),
    "4.2": KafkaConnector(source="4.2.0", tokens="4.0.0", clients="3.9.2", pool="2.12.1"),
    "4.3": KafkaConnector(source="4.2.0", tokens="4.0.0", clients="3.9.2", pool="2.12.1"),
}
"""By minor version of Spark. Where the versions differ, the set that belongs together was not published."""


def connector_of(spark_version: str) -> KafkaConnector:
    """The connector for a version of Spark; raises SparkUnusable when there is none in the table."""
    minor = ".".join(spark_version.split(".")[:2])
    if minor not in CONNECTORS:
        problem = f"there is no Kafka connector for Spark {spark_version} in the table of this release"
        known = ", ".join(CONNECTORS)
        raise SparkUnusable(problem, remedy=f"use Spark {known}, or set DRIFTQ_SPARK_KAFKA_JARS to its jars")
    return CONNECTORS[minor]

"""Kafka, S3 and PostgreSQL together, for all tests of this folder, and OpenSearch and Redis for effects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from driftq.sinks.redis import RedisSink
from tests.services.kafka_s3_postgres.stack import Stack
from tests.services_kafka import KafkaServer, private_kafka
from tests.services_opensearch import prefix, search_url
from tests.services_postgres import postgres_database_url, postgres_url, private_postgres
from tests.services_redis import redis_sink
from tests.services_s3 import S3Server, s3_server

__all__ = [
    "postgres_database_url",
    "postgres_url",
    "prefix",
    "private_kafka",
    "private_postgres",
    "redis_sink",
    "s3_server",
    "search_url",
]


@pytest.fixture(scope="module")
def stack(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_database_url: str,
    s3_server: S3Server,
    private_kafka: KafkaServer,
) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("stack")
    with Stack(folder, database_url=postgres_database_url, s3=s3_server, kafka=private_kafka.options) as made:
        yield made


@pytest.fixture
def documents(search_url: str, prefix: str, redis_sink: RedisSink) -> list[str]:
    """Addresses of an OpenSearch and a Redis, where no other test uses the same names."""
    return [f"opensearch+{search_url}/{prefix}", f"{redis_sink.url}?prefix={redis_sink.prefix}"]

"""Kafka, S3 and PostgreSQL together, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.services.kafka_s3_postgres.stack import Stack
from tests.services_kafka import KafkaServer, private_kafka
from tests.services_postgres import postgres_database_url, postgres_url, private_postgres
from tests.services_s3 import S3Server, s3_server

__all__ = ["postgres_database_url", "postgres_url", "private_kafka", "private_postgres", "s3_server"]


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

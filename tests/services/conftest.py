"""One Spark session for the tests of this folder, and servers with event logs of their own.

The session has Kafka's connector: a JVM that started without it cannot read from Kafka later, and all tests
that use the session run in one process (tests/support/sharing.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.harness import ServerProcess
from tests.services.kafka_publishing import EventSource
from tests.support.kafka_session import kafka_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    return kafka_session()


@pytest.fixture
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventSource]:
    """A server with an event log that no other test writes to."""
    with ServerProcess(tmp_path_factory.mktemp("publisher") / "data") as started:
        yield EventSource.beside(started)

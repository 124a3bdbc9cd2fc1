"""A Spark session as a user opens it, in which nothing of DriftQ is registered, and a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.harness import ServerProcess
from tests.support.spark_classes import start_spark_soon

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_S = 600
"""For one test: on a busy machine Spark alone may take a minute to start."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
            # Older pyspark leaves the sockets of its results to the garbage collector.
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@pytest.fixture(scope="session", autouse=True)
def python() -> None:
    """Spark's Python workers, and the drivers that tests start, run this interpreter."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    start_spark_soon(make=False)


@pytest.fixture(scope="session")
def spark(python: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session of the user's own."""
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .appName("versions")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server for all; tests keep to topics of their own."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as started:
        yield started


@pytest.fixture
def url(server: ServerProcess) -> str:
    return f"http://127.0.0.1:{server.port}"

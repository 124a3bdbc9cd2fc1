"""One Spark session for the whole run, and a server for each module that wants one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from driftq.settings import load_settings
from tests.harness import ServerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TIMEOUT_S = 600
"""For one test: on a busy machine Spark alone may take a minute to start."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark on this machine, with our formats registered."""
    from driftq.pipeline import open_session

    folder = tmp_path_factory.mktemp("spark")
    session = open_session(load_settings().pipeline(data=str(folder)), master="local[2]", app_name="tests")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server on a folder of its own; tests keep to topics of their own."""
    with ServerProcess(tmp_path_factory.mktemp("server") / "data") as started:
        yield started


@pytest.fixture(scope="session")
def sealing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose segments are small, so that tables appear soon."""
    data = tmp_path_factory.mktemp("sealing") / "data"
    with ServerProcess(data, env={"DRIFTQ_BROKER_SEGMENT_BYTES": "65536"}) as started:
        yield started


@pytest.fixture
def url(server: ServerProcess) -> str:
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")

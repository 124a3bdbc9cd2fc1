"""A server per test, killed at the end whatever became of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """Started and ready, with a topic `orders` of one partition."""
    with ServerProcess(tmp_path / "data") as started:
        assert started.client().post("/v1/topics", {"name": "orders"}).status == 201
        yield started

"""A server of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import ServerProcess


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data") as started:
        yield started


@pytest.fixture
def url(server: ServerProcess) -> str:
    return f"http://127.0.0.1:{server.port}"

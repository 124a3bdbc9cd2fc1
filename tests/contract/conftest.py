"""One server process a module, on a log of its own; and one with the limits of v1."""

from collections.abc import Iterator

import pytest

from tests.contract.serving import V1_DEV, Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server") / "log") as running:
        yield running


@pytest.fixture(scope="module")
def small_server() -> Iterator[Server]:
    """Two messages or 20 bytes a partition, two in flight."""
    with Server(None, limits=V1_DEV) as running:
        yield running

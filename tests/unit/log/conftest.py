from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from driftq.log import Folder
from driftq.log.disk import OsFolder
from driftq.log.memory import MemoryFolder
from driftq.testing.disk import SimFolder


@pytest.fixture
def disk() -> SimFolder:
    return SimFolder(Random(1))


@pytest.fixture(params=["files", "memory", "simulated"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    """Every adapter of the port."""
    made: Folder
    match request.param:
        case "files":
            made = OsFolder(tmp_path / "log")
        case "memory":
            made = MemoryFolder()
        case _:
            made = SimFolder(Random(1))
    yield made
    made.close()

"""The simulated disk that these stories run on."""

from random import Random

import pytest

from driftq.testing.disk import SimFolder


@pytest.fixture
def folder() -> SimFolder:
    return SimFolder(Random(7))

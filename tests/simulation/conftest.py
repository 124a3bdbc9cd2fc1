"""The broker that stories are told with."""

import pytest

from driftq.testing.broker import SimBroker


@pytest.fixture
def broker() -> SimBroker:
    return SimBroker()

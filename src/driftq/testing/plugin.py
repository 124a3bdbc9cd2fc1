"""The pytest plugin: a broker for your own tests."""

from collections.abc import Iterator

import pytest

from driftq.testing.embedded import VirtualBroker

pytest.register_assert_rewrite("driftq.testing.sinks")


@pytest.fixture
def driftq_broker() -> Iterator[VirtualBroker]:
    """A new broker in this process, in memory: all calls of a client, and `advance(ms=…)` lets time pass."""
    with VirtualBroker.start() as broker:
        yield broker

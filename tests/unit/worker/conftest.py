"""A broker with a clock that is moved by hand, and a mailbox for what workers settle."""

from collections.abc import Iterator
from queue import SimpleQueue

import pytest

import driftq
from driftq.testing.embedded import VirtualBroker

PATIENCE_S = 60.0


class Mailbox:
    """What was settled, in order."""

    def __init__(self) -> None:
        self._settled: SimpleQueue[driftq.Settled] = SimpleQueue()
        self.put = self._settled.put

    def next(self) -> driftq.Settled:
        return self._settled.get(timeout=PATIENCE_S)


@pytest.fixture
def broker() -> Iterator[VirtualBroker]:
    with VirtualBroker.start() as broker:
        broker.create_topic("orders")
        yield broker


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()

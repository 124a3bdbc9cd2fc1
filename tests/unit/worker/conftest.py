"""A broker with a clock that is moved by hand, and a mailbox for what workers settle."""

import logging
import time
from collections.abc import Iterator
from queue import Empty, SimpleQueue

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


class LogLines(logging.Handler):
    """What a worker said, as it is said, with the name of the level before it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self._arrived: SimpleQueue[str] = SimpleQueue()
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self._arrived.put(self.format(record))

    def wait_for(self, part: str, *, moving: VirtualBroker | None = None) -> str:
        """The next line that has this in it; the clock of a broker that is `moving` goes on meanwhile."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            try:
                line = self._arrived.get(timeout=PATIENCE_S if moving is None else 0.02)
            except Empty:
                if moving is not None:
                    moving.advance(ms=100)
                continue
            self.seen.append(line)
            if part in line:
                return line
        raise AssertionError(f"nobody said {part!r}")


@pytest.fixture
def log() -> Iterator[LogLines]:
    lines, logger = LogLines(), logging.getLogger("driftq.worker")
    before = logger.level
    logger.addHandler(lines)
    logger.setLevel(logging.DEBUG)
    yield lines
    logger.removeHandler(lines)
    logger.setLevel(before)


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()

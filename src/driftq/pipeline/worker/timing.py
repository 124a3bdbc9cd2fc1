"""Waiting, and waiting for somebody who is away."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

from driftq.errors import ResourceExhausted, Unavailable
from driftq.model.backoff import doubled

logger = logging.getLogger("driftq.pipeline.worker")
Answer = TypeVar("Answer")

_FIRST_MS = 100
_LONGEST_MS = 5_000


class Timing(Protocol):
    """Time that passes, in milliseconds from any zero."""

    def now(self) -> int: ...

    def wait(self, ms: int) -> None: ...


class SystemTiming:
    """The machine's own."""

    def now(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wait(self, ms: int) -> None:
        time.sleep(ms / 1000)


class OutageWait:
    """Asks again for as long as the database or the server is away; nothing is charged meanwhile."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.pauses = 0
        """How often it had to wait for somebody to come back."""

    def ask(self, call: Callable[[], Answer]) -> Answer:
        """What the call answers in the end. It must be one that may be made again."""
        pause_ms = _FIRST_MS
        while True:
            try:
                answer = call()
            except (Unavailable, ResourceExhausted) as away:
                if pause_ms == _FIRST_MS:
                    self.pauses += 1
                    logger.warning("paused: %s", away)
                self._timing.wait(pause_ms)
                pause_ms = doubled(pause_ms, cap=_LONGEST_MS)
            else:
                if pause_ms > _FIRST_MS:
                    logger.warning("going on")
                return answer

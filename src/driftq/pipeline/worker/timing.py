"""Waiting, and waiting through an outage."""

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
    """Repeats a call while the database or the server is unavailable; no attempt is spent meanwhile."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.pauses = 0
        """How many outages it waited through."""

    def ask(self, call: Callable[[], Answer]) -> Answer:
        """The result of the call. It must be safe to repeat."""
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
                    logger.warning("resumed")
                return answer

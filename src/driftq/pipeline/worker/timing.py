"""Waiting, waiting through an outage, and stopping in between."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from driftq.errors import ResourceExhausted, Unavailable
from driftq.model.backoff import doubled

logger = logging.getLogger("driftq.pipeline.worker")
Answer = TypeVar("Answer")

_FIRST_MS = 100
_LONGEST_MS = 5_000
_SLICE_MS = 200
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


class RunStopped(BaseException):
    """The process is to end: no further handler is started."""


class Timing(Protocol):
    """Time that passes, in milliseconds from any zero."""

    def now(self) -> int: ...

    def wait(self, ms: int) -> None: ...

    def raise_if_stopped(self) -> None:
        """Raise RunStopped when the run is to stop."""


class SystemTiming:
    """The machine's own."""

    def __init__(self) -> None:
        self._stopped = False

    def now(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wait(self, ms: int) -> None:
        end = self.now() + ms
        while (left := end - self.now()) > 0:
            self.raise_if_stopped()
            time.sleep(min(left, _SLICE_MS) / 1000)

    def stop(self) -> None:
        """End the run before its next handler. Safe in a signal handler."""
        self._stopped = True

    def raise_if_stopped(self) -> None:
        if self._stopped:
            raise RunStopped

    @contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """SIGTERM and SIGHUP, by which Spark ends its Python workers, stop the run in an orderly way.

        Only a process's main thread gets signals; in another thread this does nothing.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, lambda *_: self.stop()) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


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

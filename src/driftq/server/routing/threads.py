"""Threads for calls that may never return: nothing waits for them, not even the end of the process.

The standard library's pool does not fit: the interpreter joins its threads at exit, so that one hanging
router would keep the server from exiting.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue

_Call = tuple["Future[object]", Callable[[], object]]


class RouterThreads:
    """A limited number of threads, started when first needed. A call waits when none is free."""

    def __init__(self, count: int, *, name: str) -> None:
        self._count = count
        self._name = name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._started = 0
        self._free = threading.Semaphore(0)

    def submit(self, call: Callable[[], object]) -> Future[object]:
        """A future of the call. It can be cancelled until the call begins. Called by one thread."""
        future: Future[object] = Future()
        if not self._free.acquire(blocking=False) and self._started < self._count:
            self._started += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()
        self._calls.put((future, call))
        return future

    def stop(self) -> None:
        """Drop calls that have not begun; each thread ends with its current call."""
        while not self._calls.empty():
            waiting = self._calls.get()
            if waiting is not None:
                waiting[0].cancel()
        for _ in range(self._started):
            self._calls.put(None)

    def _work(self) -> None:
        while (waiting := self._calls.get()) is not None:
            future, call = waiting
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 - the caller gets it
                    future.set_exception(error)
            del waiting, future, call
            self._free.release()

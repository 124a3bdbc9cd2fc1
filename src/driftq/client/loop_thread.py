"""An event loop in a thread of its own, for callers who have none."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

from driftq.errors import ClientClosed

_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines there and waits for them here; any thread may ask."""

    def __init__(self, name: str) -> None:
        loop = self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(loop,), name=name, daemon=True)
        self._thread.start()
        self._end = weakref.finalize(self, _stop, loop, self._thread)

    @property
    def alive(self) -> bool:
        return self._end.alive

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The result of a coroutine; interrupted, it is cancelled."""
        if not self._end.alive:
            work.close()
            raise ClientClosed
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and wait for the thread."""
        self._end()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if thread.is_alive():
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join()

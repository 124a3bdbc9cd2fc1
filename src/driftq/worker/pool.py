"""Where handlers run: threads for those that block, a loop of their own for those that await.

Neither is the client's loop, which sends the heartbeats: a handler can be as busy as it likes.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from driftq.client.loop_thread import LoopThread


class HandlerPool:
    """Runs one handler, as often at the same time as it may be."""

    def __init__(self, call: Callable[..., Any], *, concurrency: int, name: str) -> None:
        self.call = call
        self.awaits = inspect.iscoroutinefunction(call)
        self._loop: LoopThread | None = LoopThread(name) if self.awaits else None
        self._threads = None if self.awaits else ThreadPoolExecutor(concurrency, thread_name_prefix=name)

    def submit(self, *args: Any, **named: Any) -> Future[Any]:
        """Begin a run; cancelling reaches a handler that awaits."""
        if self._loop is not None:
            return asyncio.run_coroutine_threadsafe(self.call(*args, **named), self._loop.loop)
        assert self._threads is not None
        return self._threads.submit(self.call, *args, **named)

    def submit_as(self, call: Callable[..., Any], *args: Any) -> Future[Any]:
        """Begin something else in one of the threads of a handler that blocks."""
        assert self._threads is not None
        return self._threads.submit(call, *args)

    def close(self) -> None:
        """Wait for no one: what still runs has lost its worker."""
        if self._loop is not None:
            self._loop.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)

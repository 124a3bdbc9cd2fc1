"""Where handlers run: threads for those that block, a loop of their own for those that await.

Neither is the client's loop, which sends the heartbeats: a handler can be as busy as it likes. What a handler
raises is handed over as a value: on its way through two kinds of futures asyncio would replace a TimeoutError
by one without the user's frames, and let a SystemExit end its loop.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from driftq.client.loop_thread import LoopThread
from driftq.worker.signatures import awaits


@dataclass(frozen=True, slots=True)
class HandlerEnded:
    """How a run ended."""

    result: Any = None
    error: BaseException | None = None
    """What it raised, with its traceback."""


class HandlerPool:
    """Runs one handler, as often at the same time as it may be."""

    def __init__(self, call: Callable[..., Any], *, concurrency: int, name: str) -> None:
        self.call = call
        self.awaits = awaits(call)
        self._loop: LoopThread | None = LoopThread(name) if self.awaits else None
        self._threads = None if self.awaits else ThreadPoolExecutor(concurrency, thread_name_prefix=name)

    def submit(self, *args: Any) -> Future[HandlerEnded]:
        """Begin a run; cancelling reaches a handler that awaits."""
        if self._loop is not None:
            return asyncio.run_coroutine_threadsafe(_awaited(self.call, args), self._loop.loop)
        return self.submit_as(self.call, *args)

    def submit_as(self, call: Callable[..., Any], *args: Any) -> Future[HandlerEnded]:
        """Begin something else in one of the threads of a handler that blocks."""
        assert self._threads is not None
        # With the ids for its log lines and the current span, as a coroutine on another loop gets them.
        return self._threads.submit(copy_context().run, _called, call, args)

    def close(self) -> None:
        """Wait for no one: what still runs has lost its worker."""
        if self._loop is not None:
            self._loop.close()
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)


def _called(call: Callable[..., Any], args: tuple[Any, ...]) -> HandlerEnded:
    try:
        result = call(*args)
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError(
                "the handler returned a coroutine that is never awaited: declare it with async def"
            )
        return HandlerEnded(result)
    except BaseException as error:  # noqa: BLE001 - the worker loop: whatever a handler raises fails its message.
        return HandlerEnded(error=error)


async def _awaited(call: Callable[..., Any], args: tuple[Any, ...]) -> HandlerEnded:
    try:
        return HandlerEnded(await call(*args))
    except asyncio.CancelledError as cancelled:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # Its lease is lost, or the worker ends.
        return HandlerEnded(error=cancelled)
    except BaseException as error:  # noqa: BLE001 - the worker loop: whatever a handler raises fails its message.
        return HandlerEnded(error=error)

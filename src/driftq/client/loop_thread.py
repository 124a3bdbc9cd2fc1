"""An event loop in a thread of its own, for callers without one."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Generic, ParamSpec, TypeVar

from driftq.client.wire.caller import stepped
from driftq.errors import ClientClosed
from driftq.forking import in_forked_child, leave_behind

_T = TypeVar("_T")
_P = ParamSpec("_P")

_PAGE = 500


def new_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop; asyncio's own on Windows, for which there is no uvloop."""
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class _UnderWay(Generic[_T]):
    """A coroutine whose caller waits in another thread; a future of threads would cost twice as much."""

    def __init__(self, work: Coroutine[Any, Any, _T]) -> None:
        self._work = work
        self._task: asyncio.Task[_T] | None = None
        self._over = threading.Lock()
        self._over.acquire()

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._task = loop.create_task(self._work)
        self._task.add_done_callback(self._end)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[_T]) -> None:
        if not task.cancelled():
            task.exception()  # It was seen, even if its caller was interrupted.
        self._over.release()

    def result(self) -> _T:
        """Wait for it, on the caller's thread."""
        self._over.acquire()
        assert self._task is not None
        try:
            return self._task.result()
        except asyncio.CancelledError:
            raise CancelledError from None  # The one of threads: the caller's own task goes on.


class LoopThread:
    """Runs coroutines on its loop and waits for them; any thread may call it.

    A forked child inherits no thread but the one that forked: there the first call starts a new loop.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self.steps = False
        """Whether plain calls reach their server without this loop."""
        self._begin()
        in_forked_child(self._reset_in_child)

    def _begin(self) -> None:
        loop = self._loop = new_loop()
        thread = threading.Thread(target=_run, args=(loop,), name=self._name, daemon=True)
        thread.start()
        self._end = weakref.finalize(self, _stop, loop, thread)
        self._beginning: threading.Lock | None = None

    def _reset_in_child(self) -> None:
        """The loop shares its epoll with the parent's: the child neither uses nor closes it."""
        leave_behind(self._loop, *asyncio.all_tasks(self._loop))
        if self._end.detach() is not None or self._beginning is not None:  # What was closed stays closed.
            self._beginning = threading.Lock()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Where the coroutines run."""
        beginning = self._beginning
        if beginning is not None:
            with beginning:
                if self._beginning is not None:
                    self._begin()
        return self._loop

    @property
    def alive(self) -> bool:
        return self._end.alive or self._beginning is not None

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """The result of a coroutine; an interrupted caller cancels it."""
        if not self.alive:
            work.close()
            raise ClientClosed
        loop, under_way = self.loop, _UnderWay(work)
        try:
            loop.call_soon_threadsafe(under_way.start, loop)
            return under_way.result()
        except BaseException:
            with suppress(RuntimeError):  # The loop is closed, and has cancelled what was left.
                loop.call_soon_threadsafe(under_way.cancel)
            raise
        finally:
            del under_way  # It has the error, whose traceback has this frame.

    def ask(self, work: Coroutine[Any, Any, _T]) -> _T:
        """As `run`, for a coroutine that makes plain calls only: on the caller's own thread, where it can."""
        if not self.steps:
            return self.run(work)
        if not self.alive:
            work.close()
            raise ClientClosed
        return stepped(work)

    def call(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """The result of a function that has to run on the loop's thread."""

        async def called() -> _T:
            return function(*args, **kwargs)

        return self.run(called())

    def each(self, items: AsyncIterator[_T]) -> Iterator[_T]:
        """The items of an async iterator, fetched in pages."""
        while page := self.run(_page(items)):
            yield from page

    def close(self) -> None:
        """Stop the loop and wait for the thread."""
        self._beginning = None
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


async def _page(items: AsyncIterator[_T]) -> list[_T]:
    """The next items; empty at the end."""
    page: list[_T] = []
    async for item in items:
        page.append(item)
        if len(page) == _PAGE:
            break
    return page


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    if thread.is_alive():
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join()

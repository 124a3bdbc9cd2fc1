"""Work that goes on in the background, on a client's loop, from `start` to `stop`."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import Self

from driftq.client import AsyncClient, Client
from driftq.errors import DriftQError, TopicNotFound
from driftq.forking import in_forked_child, leave_behind
from driftq.worker.running.client_loop import ClientLoop

logger = logging.getLogger("driftq.worker")

STOP_TIMEOUT_S = 30.0
_SLACK_S = 5.0


class BackgroundWork(ABC):
    """What the worker of messages and that of jobs have in common: how they begin and how they end.

    After a fork the parent's goes on, and the child's has not begun and has another owner.
    """

    _owner: str

    def __init__(self, client: Client | AsyncClient, *, stop_timeout_s: float) -> None:
        self._loop = ClientLoop(client)
        self._stop_timeout_s = stop_timeout_s
        self._working: Future[None] | None = None
        self._task: asyncio.Task[None] | None = None
        """The work of an `AsyncClient`, on its loop."""
        self._stopping: asyncio.Event | None = None
        self._ready = threading.Event()
        in_forked_child(self._reset_in_child)

    def _reset_in_child(self) -> None:
        leave_behind(self._working, self._task, self._stopping)
        self._working = None
        self._task = None
        self._stopping = None
        self._ready = threading.Event()
        self._owner = f"{self._owner}-{os.getpid()}"

    @abstractmethod
    def _check(self) -> None:
        """Raise what makes it pointless to begin."""

    @abstractmethod
    def _described(self) -> str:
        """Who works on what, for the log."""

    @abstractmethod
    async def _work(self, stopping: asyncio.Event) -> None:
        """Work until `stopping` is set, and end within `stop_timeout_s` of that."""

    def start(self) -> None:
        """Begin to work in the background, also again after an end.

        What ends it is logged at once, and raised by `stop` or `run`. With an `AsyncClient` use
        `start_async`.
        """
        _ = self._loop.thread_loop  # Raises with an `AsyncClient`.
        self._check()
        if self._working is None or self._working.done():
            self._ready.clear()
            self._working = asyncio.run_coroutine_threadsafe(self._begin(), self._loop.thread_loop)
            self._ready.wait()

    def run(self) -> None:
        """Work until stopped. Raises what trying again cannot mend, such as TopicNotFound."""
        if self._loop.is_async:
            asyncio.run(self.run_async())
            return
        if self._working is None:
            self.start()
        working = self._working
        assert working is not None
        try:
            working.result()
            self._working = None
        except KeyboardInterrupt:
            self.stop()
        except Exception:
            self._working = None
            raise

    def stop(self) -> None:
        """Take no more, finish what runs, give back what waits; bounded by `stop_timeout_s`.

        Raises what ended it before.
        """
        working = self.ask_to_stop()
        if working is not None:
            try:
                working.result(self._stop_timeout_s + _SLACK_S)
            finally:
                if working.done():
                    self._working = None

    def ask_to_stop(self) -> Future[None] | None:
        """The same without waiting: safe where a signal is handled."""
        if self._task is not None and self._stopping is not None and not self._task.done():
            self._task.get_loop().call_soon_threadsafe(self._stopping.set)
        elif self._working is not None and self._stopping is not None and not self._working.done():
            self._loop.thread_loop.call_soon_threadsafe(self._stopping.set)
        return self._working

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # On an event loop

    async def start_async(self) -> None:
        """Begin to work in the background of the running loop, or of the client's own with a `Client`."""
        if not self._loop.is_async:
            await asyncio.to_thread(self.start)
            return
        self._check()
        if self._task is None or self._task.done():
            self._ready.clear()
            self._task = asyncio.create_task(self._begin())
            await asyncio.sleep(0)

    async def run_async(self) -> None:
        """Work until stopped or cancelled; what runs then is finished first. Raises as `run` does."""
        await self.start_async()
        working = asyncio.wrap_future(self._working) if self._working is not None else self._task
        assert working is not None
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            await self.stop_async()
            raise
        finally:
            if working.done():
                self._working = self._task = None

    async def stop_async(self) -> None:
        """As `stop`, awaited."""
        if not self._loop.is_async:
            await asyncio.to_thread(self.stop)
            return
        self.ask_to_stop()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait_for(task, self._stop_timeout_s + _SLACK_S)

    async def __aenter__(self) -> Self:
        await self.start_async()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop_async()

    async def _begin(self) -> None:
        self._stopping = asyncio.Event()
        self._ready.set()
        described = self._described()
        logger.info("%s: starts", described)
        try:
            await self._work(self._stopping)
        except TopicNotFound as missing:
            logger.error("%s: ended, because %s; create it, then start again", described, missing)
            raise
        except DriftQError as failure:
            logger.error("%s: ended: %s", described, failure)
            raise
        except Exception:
            logger.exception("%s: ended", described)
            raise
        logger.info("%s: stopped", described)

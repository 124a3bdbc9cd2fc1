"""Work that goes on in the background, on a client's loop, from `start` to `stop`."""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import Self

from driftq.client import Client

STOP_TIMEOUT_S = 30.0
_SLACK_S = 5.0


class BackgroundWork(ABC):
    """What the worker of messages and that of jobs have in common: how they begin and how they end."""

    def __init__(self, client: Client, *, stop_timeout_s: float) -> None:
        self._client = client
        self._stop_timeout_s = stop_timeout_s
        self._working: Future[None] | None = None
        self._stopping: asyncio.Event | None = None
        self._ready = threading.Event()

    @abstractmethod
    def _check(self) -> None:
        """Raise what makes it pointless to begin."""

    @abstractmethod
    async def _work(self, stopping: asyncio.Event) -> None:
        """Work until `stopping` is set, and end within `stop_timeout_s` of that."""

    def start(self) -> None:
        """Begin to work in the background."""
        self._check()
        if self._working is None:
            self._ready.clear()
            self._working = asyncio.run_coroutine_threadsafe(self._begin(), self._client.thread.loop)
            self._ready.wait()

    def run(self) -> None:
        """Work until stopped. Raises what trying again cannot mend, such as TopicNotFound."""
        self.start()
        working = self._working
        assert working is not None
        try:
            working.result()
        except KeyboardInterrupt:
            self.stop()

    def stop(self) -> None:
        """Take no more, finish what runs, give back what waits; bounded by `stop_timeout_s`."""
        working = self.ask_to_stop()
        if working is not None:
            working.result(self._stop_timeout_s + _SLACK_S)
            self._working = None

    def ask_to_stop(self) -> Future[None] | None:
        """The same without waiting: safe where a signal is handled."""
        if self._working is not None and self._stopping is not None and not self._working.done():
            self._client.thread.loop.call_soon_threadsafe(self._stopping.set)
        return self._working

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _begin(self) -> None:
        self._stopping = asyncio.Event()
        self._ready.set()
        await self._work(self._stopping)

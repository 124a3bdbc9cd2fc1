"""A client of either kind, and the event loop that its calls run on.

The plain calls of a `Client` are made on the thread that asks for them, its other calls on the loop of its
own thread; both can be waited for in any thread and awaited on any loop. Those of an `AsyncClient` can only
be awaited, on the loop that uses the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from driftq.client import AsyncClient, Client
from driftq.client.loop_thread import LoopThread
from driftq.errors import InvalidArgument

_T = TypeVar("_T")


class ClientLoop:
    """Where the calls of a client run."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self._client = client

    @property
    def url(self) -> str:
        return self._client.url

    @property
    def awaited(self) -> AsyncClient:
        return self._client.awaited if isinstance(self._client, Client) else self._client

    @property
    def is_async(self) -> bool:
        """Whether its calls can only be awaited."""
        return not isinstance(self._client, Client)

    @property
    def thread_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of a `Client`."""
        if not isinstance(self._client, Client):
            raise InvalidArgument(
                "client", "is an AsyncClient: await the call whose name ends in _async, or use a Client"
            )
        return self._client.thread.loop

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for calls that run on the client's loop. InvalidArgument with an `AsyncClient`."""
        return self._thread_for(work).run(work)

    def ask(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Wait for plain calls, made on this thread where they can be. InvalidArgument as in `run`."""
        return self._thread_for(work).ask(work)

    def _thread_for(self, work: Coroutine[Any, Any, Any]) -> LoopThread:
        if isinstance(self._client, Client):
            return self._client.thread
        work.close()
        raise InvalidArgument(
            "client", "is an AsyncClient: await the call whose name ends in _async, or use a Client"
        )

    async def finish(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Await a call, on any loop with a `Client`."""
        if not isinstance(self._client, Client):
            return await work
        loop = self._client.thread.loop
        if loop is asyncio.get_running_loop():
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

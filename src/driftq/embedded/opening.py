"""Opening a folder: the broker runs in this process, or calls go to the server that already has the folder.

The calls are those of a server's client, and so is all code behind them except the network: requests and
replies go through memory. So an embedded broker can do everything that a server can.
"""

from __future__ import annotations

import asyncio
import logging
import os
from datetime import datetime
from typing import Literal

from driftq.client import AsyncClient, Client, ClientOptions
from driftq.client.loop_thread import LoopThread
from driftq.client.options import TIMEOUT_S
from driftq.client.wire.connection import HttpConnection
from driftq.embedded.pipe import join
from driftq.errors import LogLocked, ServerUnreachable, ShuttingDown, UsedAfterFork
from driftq.forking import in_forked_child
from driftq.http.wire.edge import HttpOptions
from driftq.http.wire.server import HttpServer
from driftq.log.disk import OsFolder
from driftq.log.files import Folder
from driftq.model.time import utc
from driftq.server.broker import BrokerOptions, open_broker
from driftq.server.clock import SystemClock
from driftq.server.io_threads import Fsync
from driftq.server.ports import Clock, Loop
from driftq.server.routing.service import Router
from driftq.settings import load_settings
from driftq.storage.address import read_address, remove_address

_STARTING_S = 3.0
"""How long to wait for a server that holds the folder to write its address."""

logger = logging.getLogger("driftq.embedded")


class EmbeddedConnector:
    """Connections to a broker in this process; closing it closes the broker."""

    host = "embedded"
    prefix = ""

    def __init__(
        self, folder: Folder, options: BrokerOptions, *, clock: Clock | None = None, turns: Loop | None = None
    ) -> None:
        """On a running loop. LogLocked when another process has the folder; other LogErrors."""
        self.url = folder.path
        self._folder = folder
        self.broker = open_broker(folder, options, on_fatal=self._damaged, clock=clock, turns=turns)
        self._server = HttpServer()
        self._server.start_unheard(self.broker, HttpOptions(in_process=True))
        self._clock = clock or SystemClock()
        self._left_behind = False
        in_forked_child(self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """The broker lives in the parent alone. Its lock is held by the parent's own copy of the folder."""
        self._left_behind = True
        self._folder.close()

    def now(self) -> datetime:
        """By the broker's own clock."""
        return utc(self._clock.now() * 1000)

    def monotonic(self) -> float:
        return self._clock.now() / 1000

    @staticmethod
    def _damaged(error: Exception) -> None:
        logger.critical("the broker has stopped: %s", error)

    async def connect(self, *, within_s: float) -> HttpConnection:
        if self._left_behind:
            raise UsedAfterFork(
                f"the broker of {self.url}", instead="a folder has one broker, so start a server for it"
            )
        connection = HttpConnection(self.monotonic)
        try:
            join(connection, self._server.connection())
        except ShuttingDown as closed:
            raise ServerUnreachable(self.url, cause="it is closed") from closed
        return connection

    @staticmethod
    def direct() -> None:
        """The broker is on the client's loop, and so are the calls."""

    async def close(self) -> None:
        if self._left_behind:
            return  # The broker goes on in the parent.
        await self._server.stop()
        self._folder.close()


def open(  # noqa: A001 - said as `driftq.open`.
    path: str | os.PathLike[str],
    *,
    fsync: Literal["always", "interval", "off"] = "always",
    router: Router | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Client:
    """The broker of a folder, in this process; the folder is created if it is missing.

    If a server has the folder, the client talks to that server, which uses its own `fsync` and `router`.
    """
    thread = LoopThread("driftq-embedded")
    try:
        asking = thread.run(open_async(path, fsync=fsync, router=router, timeout_s=timeout_s))
    except BaseException:
        thread.close()
        raise
    return Client.over(asking, thread)


async def open_async(
    path: str | os.PathLike[str],
    *,
    fsync: Literal["always", "interval", "off"] = "always",
    router: Router | None = None,
    timeout_s: float = TIMEOUT_S,
) -> AsyncClient:
    """The same on the running event loop, awaited."""
    options = ClientOptions(timeout_s=timeout_s)
    settings = load_settings()
    broker_options = BrokerOptions(
        limits=settings.limits,
        jobs=settings.jobs,
        fsync=Fsync(fsync),
        router=router,
        tables=os.path.join(path, "tables"),
        history=os.path.join(path, "history.db"),
        events=settings.events.within(_absolute(path)),
    )
    folder = OsFolder(os.path.join(path, "log"))
    try:
        connector = EmbeddedConnector(folder, broker_options)
    except LogLocked:
        folder.close()
        return AsyncClient(await _find_server(path), options=options)
    except BaseException:
        folder.close()
        raise
    remove_address(path)  # The address is that of a server that has ended.
    return AsyncClient(options=options, connector=connector)


def _absolute(path: str | os.PathLike[str]) -> str:
    """Events are opened at their first use, and the process may be in another folder by then."""
    return os.path.abspath(path)


async def _find_server(path: str | os.PathLike[str]) -> str:
    """The address of the folder's server; LogLocked when the process that holds it is not a server."""
    end = asyncio.get_running_loop().time() + _STARTING_S
    while (url := read_address(path)) is None:
        if asyncio.get_running_loop().time() > end:
            raise LogLocked(os.path.join(path, "log"))
        await asyncio.sleep(0.02)
    return url

"""The server: listens, accepts connections, and shuts down in order.

stop listening ─▶ coroutines end ─▶ what was accepted is durable and answered ─▶ streams end ─▶ close
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import sys
from collections.abc import Callable
from functools import partial

from driftq.access.audit import AuditLog
from driftq.errors import CertificateUnusable, KeysFileUnusable, ShuttingDown
from driftq.http.api.audited import Auditor
from driftq.http.api.guard import Guard
from driftq.http.wire.connection import ServerConnection
from driftq.http.wire.edge import Edge, HttpOptions
from driftq.http.wire.tls import HANDSHAKE_S, ServerTls, TlsFiles
from driftq.log.files import Folder
from driftq.server.broker import Broker, BrokerOptions, open_broker

SWITCH_INTERVAL_S = 0.0005
"""The writer thread holds the next replies: it should not wait long for the interpreter lock."""
GC_THRESHOLD = 50_000
"""Hardly any object here is in a cycle, so a collection every 700 objects is a waste."""
_BACKLOG = 1_024
_TASKS_S = 0.5
_FLUSH_S = 0.3

logger = logging.getLogger("driftq.http")


class HttpServer:
    """One listening socket in front of one broker."""

    def __init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._edge: Edge | None = None
        self._second: asyncio.TimerHandle | None = None
        self._tls: ServerTls | None = None
        self._audit: AuditLog | None = None
        self.host = ""
        self.port = 0

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'http' if self._tls is None else 'https'}://{host}:{self.port}"

    async def start(self, broker: Broker, host: str, port: int, options: HttpOptions) -> None:
        """Listen; port 0 takes a free one, and `port` says which.

        Raises KeysFileUnusable, CertificateUnusable, OSError.
        """
        loop = asyncio.get_running_loop()
        if options.tls_cert is not None:
            files = TlsFiles(cert=options.tls_cert, key=options.tls_key, client_ca=options.tls_client_ca)
            self._tls = ServerTls(files)
        edge = Edge(broker, options, bound_to=host, guard=self._new_guard(broker, options))
        self._server = await loop.create_server(
            partial(ServerConnection, edge),
            host,
            port,
            backlog=_BACKLOG,
            ssl=None if self._tls is None else self._tls.context,
            ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_S,
        )
        self.host, self.port = self._server.sockets[0].getsockname()[:2]
        self._edge = edge
        self._next_second()

    def _new_guard(self, broker: Broker, options: HttpOptions) -> Guard | None:
        if options.keys_file is None:
            return None
        auditor: Auditor | None = None
        if options.audit_file is not None:
            self._audit = AuditLog(options.audit_file)
            auditor = Auditor(self._audit, broker.engine.clock.now)
        return Guard(options.keys_file, broker.engine.counters, auditor=auditor)

    def start_unheard(self, broker: Broker, options: HttpOptions) -> None:
        """Serve without listening: connections are made by `connection` alone."""
        self._edge = Edge(broker, options)
        self._next_second()

    def connection(self) -> ServerConnection:
        """The server's end of a connection from within the process; the caller gives it a transport."""
        if self._edge is None:
            raise ShuttingDown
        return ServerConnection(self._edge)

    def _next_second(self) -> None:
        if self._edge is not None:
            self._second = asyncio.get_running_loop().call_later(1.0, self._next_second)
            self._edge.second()
            if self._tls is not None:
                self._tls.look()
            if self._audit is not None and self._audit.is_dirty:
                asyncio.get_running_loop().run_in_executor(None, self._audit.sync)

    def reload(self) -> None:
        """Read the files again that may change while the server runs."""
        edge = self._edge
        if edge is not None and edge.guard is not None and edge.guard.reload():
            edge.keys_changed(edge.guard)
        if self._tls is not None:
            self._tls.reload()

    async def stop(self) -> None:
        """Accept no more requests, answer pending ones, end the streams, close. Also closes the broker."""
        edge, self._edge = self._edge, None
        if edge is None:
            return
        if self._server is not None:
            self._server.close()
        if self._second is not None:
            self._second.cancel()
        await edge.finish_tasks(within_s=_TASKS_S)
        await edge.broker.close()
        for stream in list(edge.streams):
            stream.end()
        for connection in list(edge.connections):
            connection.close()
        await self._flush(edge)
        if self._audit is not None:
            self._audit.close()

    @staticmethod
    async def _flush(edge: Edge) -> None:
        """Leave the clients a moment to read the last replies."""
        if edge.connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(edge.emptied.wait(), _FLUSH_S)
        for connection in list(edge.connections):
            connection.abort()


async def run(
    broker_options: BrokerOptions,
    folder: Folder,
    host: str,
    port: int,
    http_options: HttpOptions,
    *,
    ready: Callable[[HttpServer], None],
) -> int:
    """Serve until SIGTERM or SIGINT; the exit code is 0 then, and 1 when damage was found on the way.

    SIGHUP reads keys and certificates again. LogError when the log cannot be opened, OSError when it cannot
    be read, or when the address cannot be bound; KeysFileUnusable and CertificateUnusable when these files
    are not valid.
    """
    over = asyncio.Event()
    damage: list[Exception] = []

    def on_fatal(error: Exception) -> None:
        logger.critical("the server cannot go on: %s", error)
        damage.append(error)
        over.set()

    broker = open_broker(folder, broker_options, on_fatal=on_fatal)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    server = HttpServer()
    try:
        await server.start(broker, host, port, http_options)
    except (OSError, KeysFileUnusable, CertificateUnusable):
        await broker.close()
        raise
    loop.add_signal_handler(signal.SIGHUP, server.reload)
    # A start makes next to no garbage: a search through all of it would take longer than the log.
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    gc.enable()  # The command line has turned it off for the start.
    ready(server)
    await over.wait()
    await server.stop()
    return 1 if damage else 0

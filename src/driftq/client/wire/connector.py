"""Where connections come from: the port, and its TCP adapter."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol
from weakref import WeakSet

from driftq.client.wire.connection import HttpConnection
from driftq.client.wire.direct import DirectConnections
from driftq.errors import ServerUnreachable
from driftq.transport.blocking import cause_of
from driftq.transport.endpoint import Endpoint


class Connector(Protocol):
    """Opens connections to one server."""

    @property
    def url(self) -> str:
        """The address, for messages."""

    @property
    def host(self) -> str:
        """The value of the Host header."""

    @property
    def prefix(self) -> str:
        """The part of every path before `/v1`."""

    def now(self) -> datetime:
        """The server's time, as far as this process can tell."""

    def monotonic(self) -> float:
        """Seconds by the clock of the server's leases, as far as this process can tell."""

    async def connect(self, *, within_s: float) -> HttpConnection:
        """A new connection; raises ServerUnreachable."""

    def direct(self) -> DirectConnections | None:
        """Connections that callers wait on themselves; None where only the loop can reach the server."""

    async def close(self) -> None:
        """Called when the client is closed, after its connections."""


class TcpConnector:
    """Connections to a server's endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.url = endpoint.url
        self.host = endpoint.host_header
        self.prefix = endpoint.prefix
        self._ssl_context = endpoint.ssl_context()
        self._secured: WeakSet[HttpConnection] = WeakSet()

    def now(self) -> datetime:
        """By this machine's clock."""
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)

    async def connect(self, *, within_s: float) -> HttpConnection:
        loop = asyncio.get_running_loop()
        endpoint = self._endpoint
        opening = loop.create_connection(HttpConnection, endpoint.host, endpoint.port, ssl=self._ssl_context)
        try:
            _, connection = await asyncio.wait_for(opening, within_s)
        except TimeoutError:
            raise ServerUnreachable(self.url, cause=f"no connection within {within_s:g} s") from None
        except OSError as error:
            raise ServerUnreachable(self.url, cause=cause_of(error)) from error
        if self._ssl_context is not None:
            self._secured.add(connection)
        return connection

    def direct(self) -> DirectConnections:
        return DirectConnections(self._endpoint, self._ssl_context)

    async def close(self) -> None:
        """A closed connection with TLS still waits for the server's goodbye: do not wait with it."""
        secured = list(self._secured)
        for connection in secured:
            connection.abort()
        for connection in secured:
            await connection.wait_gone()

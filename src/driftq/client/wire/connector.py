"""Where connections come from: the port, and TCP behind it."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

from driftq.client.wire.connection import HttpConnection
from driftq.errors import ServerUnreachable
from driftq.transport.blocking import cause_of
from driftq.transport.endpoint import Endpoint


class Connector(Protocol):
    """Opens connections to one server."""

    @property
    def url(self) -> str:
        """For messages."""

    @property
    def host(self) -> str:
        """What the Host header says."""

    @property
    def prefix(self) -> str:
        """What stands before every path."""

    def now(self) -> datetime:
        """What time it is at the server, as far as is known here."""

    def monotonic(self) -> float:
        """Seconds by the clock that the server's leases run by, as far as is known here."""

    async def connect(self, *, within_s: float) -> HttpConnection:
        """A new connection; raises ServerUnreachable."""

    async def close(self) -> None:
        """The client is closed, and so are its connections."""


class TcpConnector:
    """Connections to a server's endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.url = endpoint.url
        self.host = endpoint.host_header
        self.prefix = endpoint.prefix
        self._ssl_context = endpoint.ssl_context()

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
        return connection

    async def close(self) -> None:
        """There is nothing to close besides the connections."""

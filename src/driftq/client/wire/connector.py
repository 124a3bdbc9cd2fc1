"""Where connections come from: the port, and TCP behind it."""

from __future__ import annotations

import asyncio
import ssl
import time
from datetime import UTC, datetime
from typing import Protocol

from driftq.client.wire.address import read_address
from driftq.client.wire.connection import HttpConnection
from driftq.errors import ServerUnreachable


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
    """Connections to an address like `http://127.0.0.1:8080`."""

    def __init__(self, url: str) -> None:
        self._address = read_address(url)
        self.url = self._address.url
        self.host = self._address.host_header
        self.prefix = self._address.prefix
        self._tls = ssl.create_default_context() if self._address.tls else None

    def now(self) -> datetime:
        """By this machine's clock."""
        return datetime.now(UTC)

    monotonic = staticmethod(time.monotonic)

    async def connect(self, *, within_s: float) -> HttpConnection:
        loop = asyncio.get_running_loop()
        address = self._address
        opening = loop.create_connection(HttpConnection, address.host, address.port, ssl=self._tls)
        try:
            _, connection = await asyncio.wait_for(opening, within_s)
        except TimeoutError:
            raise ServerUnreachable(self.url, cause=f"no connection within {within_s:g} s") from None
        except OSError as error:
            cause = (error.strerror or str(error)).lower()
            raise ServerUnreachable(self.url, cause=cause) from error
        return connection

    async def close(self) -> None:
        """There is nothing to close besides the connections."""

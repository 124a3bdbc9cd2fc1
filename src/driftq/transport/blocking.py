"""The blocking HTTP client: plain sockets, no thread and no event loop.

The command line, Spark's tasks and the routing webhook use it. It retries nothing: only its caller knows
whether a request may be sent twice.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection

from driftq.errors import ServerUnreachable
from driftq.transport.endpoint import Endpoint, request_headers
from driftq.transport.paths import Query, query_text

_LOST = (OSError, HTTPException)


class BlockingConnection:
    """One connection, kept between requests; after a failure the next request opens another."""

    def __init__(self, endpoint: Endpoint, *, headers: Mapping[str, str] | None = None) -> None:
        """`headers` go with every request: other servers have credentials of their own."""
        self._endpoint = endpoint
        self._headers = {**request_headers(endpoint.credentials.api_key), **(headers or {})}
        self._http: HTTPConnection | None = None
        self._context: ssl.SSLContext | None = None
        """Made for the first connection: it reads files."""

    def send(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> BlockingResponse:
        """The response, its body still to be read.

        Raises ServerUnreachable when there is none; the server may have done what was requested.
        """
        typed = {} if body is None else {"Content-Type": "application/json"}
        headers = {**self._headers, **typed, **(headers or {})}
        target = f"{self._endpoint.prefix}{path}{query_text(query)}"
        try:
            http = self._http = self._http or self._open()
            http.request(method, target, body, headers)
            connected: socket.socket = http.sock
            return BlockingResponse(self, http.getresponse(), connected)
        except _LOST as error:
            raise self.lost(error) from error

    def _open(self) -> HTTPConnection:
        endpoint = self._endpoint
        context = self._context = self._context or endpoint.ssl_context()
        if context is None:
            return HTTPConnection(endpoint.host, endpoint.port, timeout=endpoint.timeout_s)
        return HTTPSConnection(endpoint.host, endpoint.port, timeout=endpoint.timeout_s, context=context)

    def lost(self, error: Exception, *, during: str = "") -> ServerUnreachable:
        """Close the connection, and return the error that says why."""
        self.close()
        cause = cause_of(error)
        return ServerUnreachable(self._endpoint.url, cause=f"{during} ({cause})" if during else cause)

    def close(self) -> None:
        if self._http is not None:
            self._http.close()
            self._http = None


class BlockingResponse:
    """A response whose body is read at once, in blocks or by lines. Reading raises ServerUnreachable."""

    def __init__(
        self, connection: BlockingConnection, response: HTTPResponse, connected: socket.socket
    ) -> None:
        self.status = response.status
        self._connection = connection
        self._response = response
        self._socket = connected

    def header(self, name: str) -> str | None:
        return self._response.getheader(name)

    def read(self) -> bytes:
        """The body, or what is left of it."""
        try:
            return self._response.read()
        except _LOST as error:
            raise self._connection.lost(error) from error

    def line_blocks(self, block_bytes: int) -> Iterator[bytes]:
        """An NDJSON body in blocks of complete lines."""
        rest = b""
        try:
            while block := self._response.read(block_bytes):
                cut = block.rfind(b"\n") + 1
                if cut:
                    yield rest + block[:cut]
                    rest = block[cut:]
                else:
                    rest += block
        except _LOST as error:
            raise self._connection.lost(error, during="the response broke off") from error
        if rest:
            yield rest

    def lines(self) -> Iterator[bytes]:
        """The lines of a stream as they arrive, until the server ends it."""
        try:
            while line := self._response.readline():
                yield line
        except _LOST as error:
            raise self._connection.lost(error, during="the stream broke off") from error

    def remaining_lines(self, *, within_s: float, end_stream: bool) -> list[bytes]:
        """The lines that have arrived or arrive in this time; nothing can be read afterwards.

        `end_stream` closes the sending side first, so that the server sends nothing new and closes.
        """
        found: list[bytes] = []
        try:
            self._socket.settimeout(within_s)
            if end_stream:
                self._socket.shutdown(socket.SHUT_WR)
            while (line := self._response.readline()).endswith(b"\n"):
                found.append(line)
        except _LOST:
            pass
        return found


def cause_of(error: Exception) -> str:
    """An error of a socket in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not valid here: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return str(error) or type(error).__name__

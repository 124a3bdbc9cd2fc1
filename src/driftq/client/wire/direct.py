"""Requests over blocking sockets, on the thread of the caller: the way of the sync client's plain calls.

Each request has a connection of its own while it is under way, so threads do not wait for each other. The
connections are kept for later requests. One that the server has closed meanwhile is not used again: a request
that must not be repeated would be lost on it.
"""

from __future__ import annotations

import select
import socket
import ssl
import threading
import time

from httptools import HttpParserError, HttpResponseParser

from driftq.client.wire.connection import ConnectionLost, HttpResponse
from driftq.errors import ClientClosed, ServerUnreachable
from driftq.forking import in_forked_child
from driftq.transport.blocking import cause_of
from driftq.transport.endpoint import Endpoint

_KEPT_MAX = 32
_KEPT_S = 60.0
"""The server lets go of idle connections after 90 s."""
_BLOCK_BYTES = 64 << 10
_HAS_POLL = hasattr(select, "poll")  # Windows has none.


class DirectConnection:
    """One connection, for one request at a time. The socket does not block: waits have a deadline."""

    def __init__(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        self._socket = connected
        self._secured = isinstance(connected, ssl.SSLSocket)
        self._parser = HttpResponseParser(self)
        self._body: list[bytes] = []
        self._complete = False
        self._keep_alive = False
        self.idle_since = 0.0
        self.usable = True
        """It can take another request."""

    def request(self, octets: bytes, *, within_s: float) -> HttpResponse:
        """Send a request and wait for its response; ConnectionLost when there is none in this time."""
        end = time.monotonic() + within_s
        self.usable = self._complete = False  # So it stays when the caller is interrupted.
        self._body = []
        try:
            self._send(octets, end)
            while not self._complete:
                if not self._secured:
                    _wait(self._socket, end)
                if block := self._receive(end):
                    self._parser.feed_data(block)
                else:
                    raise ConnectionLost("the server closed the connection")
        except HttpParserError as error:
            raise ConnectionLost(f"the response is not HTTP: {error}") from None
        except OSError as error:
            raise ConnectionLost(str(error)) from None
        self.usable = self._keep_alive
        self.idle_since = time.monotonic()
        return HttpResponse(self._parser.get_status_code(), b"".join(self._body))

    def _send(self, octets: bytes, end: float) -> None:
        sent = 0
        while sent < len(octets):
            try:
                sent += self._socket.send(memoryview(octets)[sent:] if sent else octets)
            except ssl.SSLWantReadError:
                _wait(self._socket, end)
            except (BlockingIOError, ssl.SSLWantWriteError):
                _wait(self._socket, end, to_send=True)

    def _receive(self, end: float) -> bytes:
        while True:
            try:
                return self._socket.recv(_BLOCK_BYTES)
            except ssl.SSLWantWriteError:
                _wait(self._socket, end, to_send=True)
            except (BlockingIOError, ssl.SSLWantReadError):
                _wait(self._socket, end)

    @property
    def is_quiet(self) -> bool:
        """Nothing has come since the last response: neither the end of the connection nor an error."""
        try:
            self._socket.recv(1)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            pass
        return False

    def cut(self) -> None:
        """End the wait of another thread for a response."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It is closed already.

    def close(self) -> None:
        self.usable = False
        self._socket.close()

    # The parser's side

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._complete = True
        self._keep_alive = self._parser.should_keep_alive()


def _wait(connected: socket.socket, end: float, *, to_send: bool = False) -> None:
    """Return when the socket can go on; ConnectionLost at the end of the time."""
    left_s = end - time.monotonic()
    if left_s > 0:
        if _HAS_POLL:
            poll = select.poll()
            poll.register(connected, select.POLLOUT if to_send else select.POLLIN)
            if poll.poll(left_s * 1000):
                return
        elif any(select.select(*(([], [connected], []) if to_send else ([connected], [], [])), left_s)):
            return
    raise ConnectionLost("no response in time")


class DirectConnections:
    """The blocking connections to one server. Any thread may use them."""

    def __init__(self, endpoint: Endpoint, context: ssl.SSLContext | None) -> None:
        self._endpoint = endpoint
        self._context = context
        self._kept: list[DirectConnection] = []
        self._busy: set[DirectConnection] = set()
        self._closed = threading.Event()
        in_forked_child(self._reset_in_child)

    def _reset_in_child(self) -> None:
        """The connections belong to the parent."""
        for connection in (*self._kept, *self._busy):
            connection.close()  # The child's descriptor alone: nothing is said to the server.
        self._kept, self._busy = [], set()
        closed, self._closed = self._closed.is_set(), threading.Event()
        if closed:
            self._closed.set()

    def request(self, octets: bytes, *, within_s: float) -> HttpResponse:
        """One attempt. Raises ServerUnreachable when there is no response, and ClientClosed."""
        end = time.monotonic() + within_s
        connection = self._take() or self._open(within_s)
        self._busy.add(connection)
        try:
            if self._closed.is_set():
                raise ClientClosed
            return connection.request(octets, within_s=end - time.monotonic())
        except ConnectionLost as lost:
            if self._closed.is_set():
                raise ClientClosed from None
            raise ServerUnreachable(self._endpoint.url, cause=str(lost)) from None
        finally:
            self._busy.discard(connection)
            self._give_back(connection)

    def pause(self, seconds: float) -> None:
        """Wait before the next attempt; raises ClientClosed at once when the client is closed."""
        if self._closed.wait(seconds):
            raise ClientClosed

    def close(self) -> None:
        """Later requests, and those under way, raise ClientClosed."""
        self._closed.set()
        for connection in list(self._busy):
            connection.cut()
        while self._kept:
            self._kept.pop().close()

    def _take(self) -> DirectConnection | None:
        oldest = time.monotonic() - _KEPT_S
        while True:
            try:
                connection = self._kept.pop()
            except IndexError:  # Also when another thread took the last one.
                return None
            if connection.idle_since > oldest and connection.is_quiet:
                return connection
            connection.close()

    def _give_back(self, connection: DirectConnection) -> None:
        if connection.usable and len(self._kept) < _KEPT_MAX and not self._closed.is_set():
            self._kept.append(connection)
            if not self._closed.is_set():
                return
        connection.close()

    def _open(self, within_s: float) -> DirectConnection:
        if self._closed.is_set():
            raise ClientClosed
        endpoint = self._endpoint
        try:
            connected = socket.create_connection((endpoint.host, endpoint.port), timeout=within_s)
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._context is not None:
                connected = self._context.wrap_socket(connected, server_hostname=endpoint.host)
        except TimeoutError:
            raise ServerUnreachable(endpoint.url, cause=f"no connection within {within_s:g} s") from None
        except OSError as error:
            raise ServerUnreachable(endpoint.url, cause=cause_of(error)) from error
        return DirectConnection(connected)

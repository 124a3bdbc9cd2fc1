"""One HTTP/1.1 connection: requests are sent in order, responses arrive in the same order.

Requests may be pipelined. When the connection is lost, everything that waits on it gets ConnectionLost: the
server may or may not have processed what was sent.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, cast

from httptools import HttpParserError, HttpResponseParser

from driftq.errors import UsedAfterFork
from driftq.forking import in_forked_child, leave_behind

_HIGH_BYTES = 1 << 20


class ConnectionLost(Exception):
    """There is no response, and there will be none."""


class HttpResponse(NamedTuple):
    status: int
    body: bytes


class LineReader:
    """A streamed response: its status first, then pieces of its body until it ends."""

    def __init__(self, connection: HttpConnection) -> None:
        loop = asyncio.get_running_loop()
        self._connection = connection
        self.status: asyncio.Future[int] = loop.create_future()
        self._pieces: list[bytes] = []
        self._size = 0
        self._first_at = 0.0
        self.arrived_at = 0.0
        """When the first byte of the last result of `pieces` arrived, by the connection's clock."""
        self._arrived = asyncio.Event()
        self._over: Exception | None = None
        self._complete = False

    def add(self, piece: bytes) -> None:
        if not self._pieces:
            self._first_at = self._connection.monotonic()
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > _HIGH_BYTES:
            self._connection.pause()
        self._arrived.set()

    def complete(self) -> None:
        self._complete = True
        self._arrived.set()

    def lose(self, cause: ConnectionLost) -> None:
        self._over = cause
        if not self.status.done():
            self.status.set_exception(cause)
        self._arrived.set()

    def leave_to_parent(self) -> None:
        """The parent reads the rest: the child must not hand any of it out."""
        self._pieces.clear()
        self._over = UsedAfterFork("this stream", instead="make the call in this process")

    async def pieces(self) -> bytes | None:
        """The bytes since the last call, at least one; None at the end of the response."""
        while not self._pieces:
            if self._complete:
                return None
            if self._over is not None:
                raise self._over
            self._arrived.clear()
            await self._arrived.wait()
        content = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self.arrived_at = self._first_at
        self._connection.resume()
        return content

    def take(self) -> bytes:
        """The bytes since the last call, without waiting."""
        content = b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self._connection.resume()
        return content

    async def finish(self) -> None:
        """Close the sending side, and wait for what the server has already sent."""
        self._connection.finish()
        while not self._complete and self._over is None:
            self._connection.resume()
            self._arrived.clear()
            await self._arrived.wait()

    async def body(self) -> bytes:
        parts: list[bytes] = []
        while (piece := await self.pieces()) is not None:
            parts.append(piece)
        return b"".join(parts)

    def close(self) -> None:
        self._connection.close()


class HttpConnection(asyncio.Protocol):
    """The client's end of one connection."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        """`monotonic` is the clock of `LineReader.arrived_at`."""
        self.monotonic = monotonic
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._parser = HttpResponseParser(self)
        self._waiting: deque[asyncio.Future[HttpResponse] | LineReader] = deque()
        self._body: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self._paused = False
        self.idle_since = self._loop.time()
        self.usable = True
        """It can take another request."""
        self._gone = False
        self._awaits_end: asyncio.Future[None] | None = None
        in_forked_child(self._leave_to_parent)

    # Asking

    def request(self, octets: bytes, *, within_s: float) -> asyncio.Future[HttpResponse]:
        """Send a request; the future gets its response or ConnectionLost."""
        answer: asyncio.Future[HttpResponse] = self._loop.create_future()
        if not self.usable:
            answer.set_exception(ConnectionLost("the connection is closed"))
            return answer
        alarm = self._loop.call_later(within_s, self._give_up)
        answer.add_done_callback(lambda _: alarm.cancel())
        self._waiting.append(answer)
        self._transport.write(octets)
        return answer

    def stream(self, octets: bytes) -> LineReader:
        """Send a request with a streamed response; the connection takes no other request meanwhile."""
        stream = LineReader(self)
        if not self.usable:
            stream.lose(ConnectionLost("the connection is closed"))
            return stream
        self._waiting.append(stream)
        self._transport.write(octets)
        return stream

    @property
    def idle(self) -> bool:
        return self.usable and not self._waiting

    def close(self) -> None:
        self.usable = False
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what is not sent yet is lost."""
        self.usable = False
        self._transport.abort()

    async def wait_gone(self) -> None:
        """Returns when nothing is left of a connection that was closed or aborted."""
        if not self._gone:
            self._awaits_end = self._awaits_end or self._loop.create_future()
            await self._awaits_end

    def finish(self) -> None:
        """Send no more requests; what the server sends before it closes still arrives."""
        self.usable = False
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:
            self._transport.close()

    def _give_up(self) -> None:
        self._lose("no response in time")
        self._transport.abort()

    def pause(self) -> None:
        if not self._paused and self.usable:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._paused and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def _leave_to_parent(self) -> None:
        """The socket belongs to the parent, and so does the loop that would close it."""
        leave_behind(self._transport)
        self._transport = _NO_TRANSPORT
        self.usable = False
        self._gone = True
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            if isinstance(waiter, LineReader):
                waiter.leave_to_parent()

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._lose(f"the response is not HTTP: {error}")
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        if self._awaits_end is not None and not self._awaits_end.done():
            self._awaits_end.set_result(None)
        self._lose(str(exc) if exc else "the server closed the connection")

    def _lose(self, cause: str) -> None:
        self.usable = False
        waiting, self._waiting = self._waiting, deque()
        for waiter in waiting:
            if isinstance(waiter, LineReader):
                waiter.lose(ConnectionLost(cause))
            elif not waiter.done():
                waiter.set_exception(ConnectionLost(cause))

    # The parser's side

    def on_headers_complete(self) -> None:
        if self._waiting and isinstance(self._waiting[0], LineReader):
            status = self._waiting[0].status
            if not status.done():
                status.set_result(self._parser.get_status_code())

    def on_body(self, body: bytes) -> None:
        if self._waiting and isinstance(self._waiting[0], LineReader):
            self._waiting[0].add(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        body, self._body = self._body, []
        if not self._waiting:
            return  # An unsolicited response, sent before the server closes.
        if not self._parser.should_keep_alive():
            self.usable = False
        waiter = self._waiting.popleft()
        self.idle_since = self._loop.time()
        if isinstance(waiter, LineReader):
            waiter.complete()
        elif not waiter.done():
            waiter.set_result(HttpResponse(self._parser.get_status_code(), b"".join(body)))


class _NoTransport(asyncio.Transport):
    """The transport of an inherited connection in a forked child."""

    def close(self) -> None:
        """The parent closes the socket."""

    abort = close


_NO_TRANSPORT = _NoTransport()

"""One client's connection: its parser hands over requests, replies go back in the order of the requests.

Everything here is callbacks. A connection stops reading while too many replies are pending, or while the
client does not read them. After a request that is malformed or arrives too slowly, it replies, stops reading
and closes, leaving the client a second to read the reply.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

from driftq.errors import DriftQError, RequestTimeout, Unavailable
from driftq.http.api.router import dispatch
from driftq.http.wire.exchange import CONTINUE, Exchange
from driftq.http.wire.parser import RequestReader

if TYPE_CHECKING:
    from driftq.access.keys import ApiKey
    from driftq.http.wire.edge import Edge, HttpOptions

_LINGER_S = 1.0
_CLOSING_S = 5


class ResponseStream(Protocol):
    """A reply that is written in chunks."""

    def resumed(self) -> None:
        """The client has read everything written so far."""

    def lost(self) -> None:
        """The client has disconnected."""


class Pace:
    """How fast a connection's unfinished request arrives, measured once a second.

    A second in which the server does not wait for its bytes does not count. Nothing is recorded between two
    measurements: a request that arrives within a second costs nothing here.
    """

    __slots__ = ("_looks", "_options", "_part", "_sizes")

    def __init__(self, options: HttpOptions) -> None:
        self._options = options
        self._part: tuple[int, bool] = (0, False)
        self._looks = 0
        self._sizes: deque[int] = deque(maxlen=options.body_window_s + 1)

    def look(self, request: int, *, in_head: bool, received_bytes: int) -> RequestTimeout | None:
        """One more second of request number `request`; the error when it arrives too slowly."""
        if self._part != (request, in_head):
            if self._part[0] != request:
                self._looks = 0
            self._part = (request, in_head)
            self._sizes.clear()
        self._looks += 1
        if in_head:
            if self._looks > self._options.head_s:
                return RequestTimeout(f"the request's head did not come within {self._options.head_s} s")
            return None
        self._sizes.append(received_bytes)
        window_s, least = self._options.body_window_s, self._options.body_bytes_per_s_min
        if len(self._sizes) > window_s and self._sizes[-1] - self._sizes[0] < window_s * least:
            return RequestTimeout(
                f"the request's body came slower than {least} bytes per second over {window_s} s"
            )
        return None

    def bytes_per_s(self, request: int, *, received_bytes: int) -> float:
        """How fast this request has arrived so far."""
        return received_bytes / (self._looks if self._part[0] == request and self._looks else 1)


class ServerConnection(asyncio.Protocol):
    """The queue of open exchanges, and the transport for their replies."""

    def __init__(self, edge: Edge) -> None:
        self._edge = edge
        self._options = edge.options
        self._reader = RequestReader(edge, self)
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._line: deque[Exchange] = deque()
        self._stream: ResponseStream | None = None
        self._pace: Pace | None = None
        self._seen = edge.tick
        """When the last request was complete, or the last reply was written."""
        self._deaf = False
        """Incoming bytes are discarded."""
        self._lingers = False
        """The client may still be sending: closing at once would lose the reply."""
        self._gone = False
        """Closed, or being closed: nothing more is written."""
        self._consumed = False
        """An endless stream is open: only the client's closing matters."""
        self._owes_continue = False
        self._reading_paused = False
        self.writing_paused = False
        self.proven: tuple[bytes, ApiKey] | None = None
        """The header of an earlier request here, and the key that it proved to have."""

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(self._options.write_high_bytes, self._options.write_low_bytes)
        if not self._edge.enter(self):
            if self._edge.is_flooded:
                self.abort()  # Even refusing them all would cost too much.
            else:
                self._refuse(Unavailable("too many connections"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone = True
        self._edge.leave(self)
        self._disconnect()
        self._line.clear()

    def _disconnect(self) -> None:
        """Nothing is delivered to this client any more."""
        for exchange in list(self._line):
            if exchange.on_lost is not None:
                on_lost, exchange.on_lost = exchange.on_lost, None
                on_lost()
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.lost()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        try:
            self._reader.feed(data)
        except DriftQError as error:
            self._refuse(error)

    def eof_received(self) -> bool:
        """A client that closed only its own side still gets its pending replies.

        A consumer counts as disconnected, and so does a client that waits for jobs: a delivery would be
        wasted. They are gone at once: `connection_lost` comes later than a turn that is due by now.
        """
        waits = self._stream is not None or any(exchange.on_lost is not None for exchange in self._line)
        if waits:
            self._disconnect()
            return False
        if not self._line or self._reader.within or self._lingers or self._consumed:
            return False
        if not self._transport.can_write_eof():
            return False  # TLS closes both sides at once.
        self._line[-1].ends_connection = True
        return True

    def pause_writing(self) -> None:
        self.writing_paused = True
        self._set_reading()

    def resume_writing(self) -> None:
        self.writing_paused = False
        if self._stream is not None:
            self._stream.resumed()
        self._set_reading()

    def _set_reading(self) -> None:
        owes_too_much = len(self._line) >= self._options.outstanding_max
        pause = (owes_too_much or self.writing_paused) and not self._deaf
        if pause != self._reading_paused and not self._gone:
            self._reading_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # The reader's side

    def received(self, exchange: Exchange, refusal: DriftQError | None = None) -> None:
        """A request is complete. A refused one takes its place in the queue, and no handler sees it."""
        if self._deaf:
            return
        self._seen = self._edge.tick
        self._owes_continue = False
        if exchange.ends_connection:
            self._deaf = True
        self._line.append(exchange)
        self._edge.counters.requests += 1
        if refusal is None:
            dispatch(exchange)
        else:
            exchange.reply_error(refusal)
        if len(self._line) >= self._options.outstanding_max:
            self._set_reading()

    def owe_continue(self) -> None:
        """The client waits for `100 Continue` before it sends its body."""
        self._owes_continue = True
        self._pay_continue()

    def _pay_continue(self) -> None:
        if not self._line:
            self._owes_continue = False
            self._transport.write(CONTINUE)

    def _refuse(self, error: DriftQError) -> None:
        """Reply to a malformed request, and close."""
        if self._gone or self._lingers:
            return
        self._deaf = self._lingers = True
        self._edge.departs(self)
        exchange = Exchange(self._edge, self, b"")
        exchange.ends_connection = True
        self._line.append(exchange)
        exchange.reply_error(error)

    # The replies' side

    def is_first(self, exchange: Exchange) -> bool:
        return bool(self._line) and self._line[0] is exchange

    def answered(self, exchange: Exchange, answer: bytes) -> None:
        """An exchange has its reply: write it when all earlier ones are written."""
        if self._gone or exchange.answer is not None:
            return
        exchange.answer = answer
        line = self._line
        if line[0] is exchange:
            self._transport.write(answer)
            if len(line) > 1 or exchange.ends_connection or self._owes_continue or self._reading_paused:
                self._passed()
            else:
                line.clear()
                self._seen = self._edge.tick

    def begin(self, exchange: Exchange, head: bytes, stream: ResponseStream) -> None:
        """The first exchange in the queue is answered in chunks from now on."""
        head = exchange.identified(head)
        exchange.answer = head
        self._stream = stream
        self.write(head)

    def listen_no_more(self) -> None:
        """The open stream is the last reply on this connection."""
        self._deaf = self._consumed = True
        self._set_reading()

    def write(self, content: bytes) -> None:
        if not self._gone:
            self._transport.write(content)

    def end(self, exchange: Exchange) -> None:
        """The stream is complete."""
        if not self._gone and self.is_first(exchange):
            self._stream = None
            self._passed()

    @property
    def peer(self) -> object:
        """The client's address, as the transport has it."""
        return self._transport.get_extra_info("peername")

    def unsent_bytes(self) -> int:
        return 0 if self._gone else self._transport.get_write_buffer_size()

    def _passed(self) -> None:
        """The first exchange is answered: go on with the next ones."""
        line = self._line
        self._seen = self._edge.tick
        while True:
            if line.popleft().ends_connection:
                self._finish()
                return
            if not line:
                break
            following = line[0]
            if following.answer is None:
                if following.parked:
                    dispatch(following)
                break
            self._transport.write(following.answer)
        if self._owes_continue:
            self._pay_continue()
        if self._reading_paused:
            self._set_reading()

    def _finish(self) -> None:
        """The last reply is written."""
        self._line.clear()
        if not self._lingers:
            self.close()
            return
        self._seen = self._edge.tick
        if self._transport.can_write_eof():
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(_LINGER_S, self.close)

    # The end

    def look_after(self) -> None:
        """Once a second: close when idle for too long, or when a request arrives too slowly."""
        if self._gone:
            if self._edge.tick - self._seen > _CLOSING_S:
                self._transport.abort()
        elif self.awaits_request:
            self._pace = self._pace or Pace(self._options)
            reader = self._reader
            too_slow = self._pace.look(
                reader.begun, in_head=reader.in_head, received_bytes=reader.received_bytes
            )
            if too_slow is not None:
                self._refuse(too_slow)
        elif self.is_idle and self.idle_s > self._options.keep_alive_s:
            self.close()

    @property
    def awaits_request(self) -> bool:
        """The client has to send the rest of a request, and waits for nothing from us."""
        return self._reader.within and not (self._deaf or self._reading_paused or self._owes_continue)

    @property
    def is_idle(self) -> bool:
        """Open, and without a request."""
        return not (self._line or self._gone or self._deaf or self._reader.within)

    @property
    def idle_s(self) -> int:
        return self._edge.tick - self._seen

    @property
    def bytes_per_s(self) -> float:
        """Of the incomplete request."""
        size = self._reader.received_bytes
        return size if self._pace is None else self._pace.bytes_per_s(self._reader.begun, received_bytes=size)

    def close_unless(self, is_current: Callable[[ApiKey], bool]) -> None:
        """Close when a request is open, a stream for instance, whose key is no longer current."""
        if any(one.caller is not None and not is_current(one.caller) for one in self._line):
            self.close()

    def give_way(self) -> None:
        """Close to free the slot for another connection; a client with a half-sent request gets an error."""
        if self._reader.within:
            self._refuse(
                RequestTimeout("all connections are in use, and this request was the slowest to arrive")
            )
        else:
            self.close()

    def close(self) -> None:
        """Close after what is written already."""
        if not self._gone:
            self._gone = self._deaf = True
            self._seen = self._edge.tick
            self._edge.departs(self)
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

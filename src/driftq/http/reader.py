"""From bytes to requests: httptools' callbacks, the limits on what a client may send, and odd wishes.

A client that wishes for another protocol (`Upgrade`) is answered in this one: its request is read again
without the wish. What breaks HTTP or a limit is raised from `feed`, and the reader is of no use afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from driftq.errors import DriftQError, InvalidArgument, MethodNotAllowed, PayloadTooLarge
from driftq.http.exchange import Exchange
from driftq.http.known import HEAD_BYTES_MAX, HEAD_END, KnownHead

if TYPE_CHECKING:
    from driftq.http.edge import Edge
    from driftq.http.protocol import Connection

_WATCHED = ("content-length", "content-type", "transfer-encoding", "expect", "connection", "upgrade")
_LENGTHS = frozenset(map(len, _WATCHED))


class RequestReader:
    """The parser of one connection. Hands each complete request to `connection.received`."""

    def __init__(self, edge: Edge, connection: Connection) -> None:
        self._edge = edge
        self._connection = connection
        self._options = edge.options
        self._parser = HttpRequestParser(self)
        self._known = edge.known_heads
        self._refusal: DriftQError | None = None
        self._in_head = False
        self._head_fed = 0
        self.within = False
        """A request has begun and is not complete."""
        self._clear()

    def _clear(self) -> None:
        self._new_head = b""
        """Of the request that is being read, if it may be worth learning."""
        self._url = b""
        self._body = b""
        self._more: list[bytes] = []
        self._body_bytes = 0
        self._head_bytes = 0
        self._content_type = b""
        self._content_length = 0
        self._chunked = self._expects = self._says_connection = self._says_upgrade = False

    def feed(self, received: bytes) -> None:
        """Take what came in; raises the error to answer when it cannot be a request."""
        if not self.within:
            received = self._take_known(received)
            if not received:
                return
        fed = 0
        if self._in_head:
            fed = self._head_fed = self._head_fed + len(received)
        try:
            self._parser.feed_data(received)
        except HttpParserUpgrade as upgrade:
            self._read_again(received[upgrade.args[0] :])
        except HttpParserError as error:
            raise (self._refusal or InvalidArgument("", f"malformed HTTP: {error}")) from None
        if fed and self._in_head and self._head_fed == fed:  # It is still the same head.
            if fed > self._options.head_bytes_max + self._options.url_bytes_max:
                raise InvalidArgument("", "the request's head is too large")

    def _take_known(self, received: bytes) -> bytes:
        """Hand on the requests in front whose heads are known; what is left is for the parser."""
        while received:
            end = received.find(HEAD_END, 0, HEAD_BYTES_MAX) + len(HEAD_END)
            head = received[:end] if end >= len(HEAD_END) else b""
            known = self._known.get(head)
            if known is None:
                self._new_head = head
                break
            stop = end + known.body_bytes
            if len(received) < stop:
                break
            exchange = Exchange(self._edge, self._connection, known.method)
            exchange.path, exchange.query, exchange.content_type = known.path, known.query, known.content_type
            exchange.body = received[end:stop]
            self._connection.received(exchange)
            received = received[stop:]
        return received

    def _learn(self, exchange: Exchange) -> None:
        odd = exchange.old or exchange.ends_connection or self._chunked or self._expects or self._says_upgrade
        if not odd and len(exchange.body) == self._content_length:
            facts = (exchange.method, exchange.path, exchange.query, exchange.content_type)
            self._known.learn(self._new_head, self._url, KnownHead(*facts, self._content_length))

    def _stop(self, error: DriftQError) -> None:
        """The parser reports what is raised here as an error of its own."""
        self._refusal = error
        raise error

    def _read_again(self, rest: bytes) -> None:
        framing = b"Content-Length: %d\r\n" % self._content_length
        if self._chunked:
            framing = b"Transfer-Encoding: chunked\r\n"
        head = b"%b %b HTTP/1.1\r\n%bContent-Type: %b\r\n\r\n" % (
            self._parser.get_method(),
            self._url,
            framing,
            self._content_type or b"application/json",
        )
        self._clear()
        self._parser = HttpRequestParser(self)
        self.feed(head + rest)

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        self.within = self._in_head = True
        self._head_fed = 0

    def on_url(self, url: bytes) -> None:
        self._url += url
        if len(self._url) > self._options.url_bytes_max:
            self._stop(InvalidArgument("", f"the URL is longer than {self._options.url_bytes_max} bytes"))

    def on_header(self, name: bytes, value: bytes) -> None:
        size = len(name)
        self._head_bytes += size + len(value) + 4
        if self._head_bytes > self._options.head_bytes_max:
            limit = self._options.head_bytes_max
            self._stop(InvalidArgument("", f"the headers are larger than {limit} bytes"))
        if size not in _LENGTHS:
            return
        name = name.lower()
        if name == b"content-length":
            self._content_length = int(value) if value.isdigit() else 0
        elif name == b"content-type":
            self._content_type = value
        elif name == b"connection":
            self._says_connection = True
        elif name == b"transfer-encoding":
            self._chunked = True
        elif name == b"expect":
            self._expects = value.lower() == b"100-continue"
        elif name == b"upgrade":
            self._says_upgrade = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        if self._content_length > self._options.body_bytes_max:
            self._stop(PayloadTooLarge(limit_bytes=self._options.body_bytes_max))
        if self._expects and self._parser.get_http_version() == "1.1":
            self._connection.owe_continue()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        if self._body_bytes > self._options.body_bytes_max:
            self._stop(PayloadTooLarge(limit_bytes=self._options.body_bytes_max))
        if self._body:
            self._more.append(body)
        else:
            self._body = body

    def on_message_complete(self) -> None:
        parser = self._parser
        exchange = Exchange(self._edge, self._connection, parser.get_method())
        if exchange.method == b"CONNECT":
            self._stop(MethodNotAllowed("CONNECT", allow="DELETE, GET, POST"))
        if self._says_upgrade and parser.should_upgrade():
            return
        self.within = False
        exchange.path, _, exchange.query = self._url.partition(b"?")
        exchange.body = self._body if not self._more else b"".join((self._body, *self._more))
        exchange.content_type = self._content_type
        exchange.ends_connection = not parser.should_keep_alive()
        if self._says_connection or exchange.ends_connection:
            exchange.old = parser.get_http_version() == "1.0"
        if self._new_head:
            self._learn(exchange)
        self._clear()
        self._connection.received(exchange)

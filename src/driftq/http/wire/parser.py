"""From bytes to requests: httptools' callbacks, the limits on what a client may send, and odd wishes.

A client that wishes for another protocol (`Upgrade`) is answered in this one: its request is read again
without the wish. What breaks HTTP or a limit is raised from `feed`, and the reader is of no use afterwards.
A request that is whole but not to be answered (`hosts`) is handed on with its refusal. Its head is never
learned, so a head that is known needs no second look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from driftq.errors import DriftQError, InvalidArgument, MethodNotAllowed, PayloadTooLarge
from driftq.http.wire.exchange import Exchange

if TYPE_CHECKING:
    from driftq.http.wire.connection import ServerConnection
    from driftq.http.wire.edge import Edge

_WATCHED = (
    *("content-length", "content-type", "transfer-encoding", "expect", "connection", "upgrade"),
    *("host", "origin", "sec-fetch-site"),
)
_LENGTHS = frozenset(map(len, _WATCHED))
_VERSIONS = ("1.0", "1.1")

HEAD_BYTES_MAX = 1_024
HEADS_MAX = 1_024
HEAD_END = b"\r\n\r\n"


class CachedHead(NamedTuple):
    """What the parser made of a head."""

    method: bytes
    path: bytes
    query: bytes
    content_type: bytes
    body_bytes: int


class HeadCache(dict[bytes, CachedHead]):
    """Heads that were parsed before, by their bytes up to and with the empty line.

    Most clients send the same few again and again, and the same bytes mean the same request: one whose head
    is known and whose body has come whole needs no parser. Only plain heads are learned: HTTP/1.1 that stays
    open, a body of a given length, no wishes beside.
    """

    def learn(self, octets: bytes, url: bytes, head: CachedHead) -> None:
        """Keep a head, if these are its bytes beyond doubt: it begins here, no line ends in another way."""
        begins = octets.startswith(b"%b %b HTTP/1.1\r\n" % (head.method, url))
        if begins and octets.count(b"\n") == octets.count(b"\r\n"):
            if len(self) >= HEADS_MAX:
                self.clear()  # A client sends ever new ones; those in use are learned again at once.
            self[octets] = head


class RequestReader:
    """The parser of one connection. Hands each complete request to `connection.received`."""

    def __init__(self, edge: Edge, connection: ServerConnection) -> None:
        self._edge = edge
        self._connection = connection
        self._options = edge.options
        self._parser = HttpRequestParser(self)
        self._known = edge.known_heads
        self._host_rule = edge.host_rule
        self._refusal: DriftQError | None = None
        self._in_head = False
        self._head_fed = 0
        self.within = False
        """A request has begun and is not complete."""
        self.begun = 0
        """How many requests have begun in the parser's hands."""
        self.received_bytes = 0
        """Of the request that is not complete; what came in one piece with its beginning counts too."""
        self._clear()

    @property
    def in_head(self) -> bool:
        return self._in_head

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
        self._chunked = self._expects = self._says_upgrade = False
        self._says_connection = b""
        self._version = ""
        self._host: bytes | None = None
        self._origin: bytes | None = None
        self._site: bytes | None = None
        self._denial: DriftQError | None = None

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
        if self.within:
            self.received_bytes += len(received)

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
        if not odd and self._denial is None and len(exchange.body) == self._content_length:
            facts = (exchange.method, exchange.path, exchange.query, exchange.content_type)
            self._known.learn(self._new_head, self._url, CachedHead(*facts, self._content_length))

    def _stop(self, error: DriftQError) -> None:
        """The parser reports what is raised here as an error of its own."""
        self._refusal = error
        raise error

    def _read_again(self, rest: bytes) -> None:
        """The same request without `Upgrade`; all else that this reader minds is said again."""
        words = (word.strip() for word in self._says_connection.split(b","))
        headers: dict[bytes, bytes | None] = {
            b"Host": self._host,
            b"Origin": self._origin,
            b"Sec-Fetch-Site": self._site,
            b"Connection": b", ".join(word for word in words if word.lower() != b"upgrade") or None,
            b"Content-Type": self._content_type or b"application/json",
            b"Content-Length": None if self._chunked else b"%d" % self._content_length,
            b"Transfer-Encoding": b"chunked" if self._chunked else None,
        }
        said = ((name, value) for name, value in headers.items() if value is not None)
        lines = b"".join(b"%b: %b\r\n" % header for header in said)
        first = (self._parser.get_method(), self._url, self._version.encode())
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (*first, lines)
        self._clear()
        self._parser = HttpRequestParser(self)
        self.feed(head + rest)

    # Callbacks of the parser

    def on_message_begin(self) -> None:
        self.within = self._in_head = True
        self.begun += 1
        self._head_fed = self.received_bytes = 0

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
        if size not in _LENGTHS or not self._in_head:  # What comes behind a body changes nothing any more.
            return
        name = name.lower()
        if name == b"content-length":
            self._content_length = int(value) if value.isdigit() else 0
        elif name == b"content-type":
            self._content_type = value
        elif name == b"host":
            if self._host is not None:
                self._stop(InvalidArgument("", "there are two Host headers"))
            self._host = value
        elif name == b"origin":
            self._origin = value if self._origin is None else self._origin + b", " + value
        elif name == b"sec-fetch-site":
            self._site = value if self._site is None else self._site + b", " + value
        elif name == b"connection":
            self._says_connection += b"," + value
        elif name == b"transfer-encoding":
            self._chunked = True
        elif name == b"expect":
            self._expects = value.lower() == b"100-continue"
        elif name == b"upgrade":
            self._says_upgrade = True

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._version = self._parser.get_http_version()
        if self._version not in _VERSIONS:
            self._stop(InvalidArgument("", f"version {self._version} of HTTP is not spoken here, 1.1 is"))
        if self._host_rule is not None:
            self._denial = self._host_rule.refusal(
                host=self._target_host(), origin=self._origin, site=self._site
            )
        if self._content_length > self._options.body_bytes_max:
            self._stop(PayloadTooLarge(limit_bytes=self._options.body_bytes_max))
        if self._expects and self._version == "1.1":
            self._connection.owe_continue()

    def _target_host(self) -> bytes | None:
        """A target that is written in full names the host itself, and then the header does not count."""
        if self._url.startswith(b"/"):
            return self._host
        _, found, rest = self._url.partition(b"://")
        return rest.partition(b"/")[0].partition(b"?")[0] if found else self._host

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
            exchange.old = self._version == "1.0"
        if self._new_head:
            self._learn(exchange)
        denial = self._denial
        self._clear()
        self._connection.received(exchange, denial)

"""From bytes to requests: httptools' callbacks, the limits on a request, and `Upgrade`.

A client that asks for another protocol (`Upgrade`) is answered in HTTP/1.1: its request is parsed again
without that header. `feed` raises on a breach of HTTP or of a limit, and the parser is unusable afterwards. A
complete request that is refused (`hosts`) is handed on with its error. Its head is never cached, so a cached
head needs no second check; nor do the headers that the request before had.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from driftq.errors import DriftQError, InvalidArgument, MethodNotAllowed, PayloadTooLarge
from driftq.http.wire.exchange import Exchange
from driftq.telemetry.tracing import is_traceparent

if TYPE_CHECKING:
    from driftq.http.wire.connection import ServerConnection
    from driftq.http.wire.edge import Edge

_WATCHED = (
    *("content-length", "content-type", "transfer-encoding", "expect", "connection", "upgrade"),
    *("host", "origin", "sec-fetch-site", "authorization", "x-request-id", "traceparent"),
    *("cookie", "if-none-match"),
)
REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")
"""A client's own id for a request; any other text is ignored, and the server makes an id up."""
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
    authorization: bytes
    body_bytes: int


class HeadCache(dict[bytes, CachedHead]):
    """Parsed heads by their bytes, up to and including the empty line.

    Most clients send the same few heads repeatedly, and the same bytes mean the same request: one whose head
    is cached and whose body is complete needs no parser. Only plain heads are cached: HTTP/1.1 with
    keep-alive, a body of a given length, no `Upgrade`, no `Expect` and no id that is another one each time.
    """

    def learn(self, octets: bytes, url: bytes, head: CachedHead) -> None:
        """Cache a head, if these are certainly its bytes: it begins here, and every line ends in CRLF."""
        begins = octets.startswith(b"%b %b HTTP/1.1\r\n" % (head.method, url))
        if begins and octets.count(b"\n") == octets.count(b"\r\n"):
            if len(self) >= HEADS_MAX:
                self.clear()  # A client sends a new head each time; those in use are cached again at once.
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
        self._allowed: tuple[bytes | None, ...] | None = None
        """The host, origin and site that the rule allowed last: the same ones need no second look."""
        self._refusal: DriftQError | None = None
        self._in_head = False
        self._head_fed = 0
        self.within = False
        """A request has begun and is not complete."""
        self.begun = 0
        """How many requests the parser has begun."""
        self.received_bytes = 0
        """Of the incomplete request, including all bytes of the piece that it began in."""
        self._clear()

    @property
    def in_head(self) -> bool:
        return self._in_head

    def _clear(self) -> None:
        self._new_head = b""
        """Of the request that is being parsed, if it may be cached."""
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
        self._authorization = b""
        self._request_id = b""
        self._traceparent: str | None = None
        self._cookie = b""
        self._etags = b""
        self._denial: DriftQError | None = None

    def feed(self, received: bytes) -> None:
        """Parse incoming bytes; raises the error to reply with when they are no valid request."""
        if not self.within:
            end = received.find(HEAD_END, 0, HEAD_BYTES_MAX) + len(HEAD_END)
            known = self._known.get(received[:end])
            if known is not None and end + known.body_bytes == len(received):
                self._connection.received(
                    Exchange(
                        self._edge,
                        self._connection,
                        known.method,
                        known.path,
                        known.query,
                        known.content_type,
                        known.authorization,
                        received[end:],
                    )
                )
                return
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
        """Hand on the leading requests whose heads are cached; the rest is for the parser."""
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
            exchange.authorization = known.authorization
            exchange.body = received[end:stop]
            self._connection.received(exchange)
            received = received[stop:]
        return received

    def _learn(self, exchange: Exchange) -> None:
        odd = exchange.old or exchange.ends_connection or self._chunked or self._expects or self._says_upgrade
        odd = odd or bool(exchange.request_id or exchange.traceparent)
        of_browser = bool(self._cookie or self._etags)  # Seldom twice the same: not worth a place.
        if not (odd or of_browser) and self._denial is None and len(exchange.body) == self._content_length:
            facts = (exchange.method, exchange.path, exchange.query, exchange.content_type)
            head = CachedHead(*facts, exchange.authorization, self._content_length)
            self._known.learn(self._new_head, self._url, head)

    def _stop(self, error: DriftQError) -> None:
        """The parser reports an exception raised here as its own error."""
        self._refusal = error
        raise error

    def _read_again(self, rest: bytes) -> None:
        """The same request without `Upgrade`, with every other header that this parser uses."""
        words = (word.strip() for word in self._says_connection.split(b","))
        headers: dict[bytes, bytes | None] = {
            b"Host": self._host,
            b"Origin": self._origin,
            b"Sec-Fetch-Site": self._site,
            b"Authorization": self._authorization or None,
            b"X-Request-Id": self._request_id or None,
            b"Traceparent": self._traceparent.encode() if self._traceparent else None,
            b"Cookie": self._cookie or None,
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
        if size not in _LENGTHS or not self._in_head:  # Trailers after a body change nothing.
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
        elif name == b"authorization":
            if self._authorization:
                self._stop(InvalidArgument("", "there are two Authorization headers"))
            self._authorization = value
        elif name == b"x-request-id":
            self._request_id = value if REQUEST_ID.fullmatch(value) else b""
        elif name == b"traceparent":
            text = value.decode(errors="replace")
            self._traceparent = text if is_traceparent(text) else None
        elif name == b"cookie":
            self._cookie = value if not self._cookie else self._cookie + b"; " + value
        elif name == b"if-none-match":
            self._etags = value
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
            self._stop(InvalidArgument("", f"HTTP version {self._version} is not supported; use 1.1"))
        if self._host_rule is not None:
            host, origin, site = asked = (self._target_host(), self._origin, self._site)
            if asked != self._allowed:
                self._denial = self._host_rule.refusal(host=host, origin=origin, site=site)
                self._allowed = asked if self._denial is None else None
        if self._content_length > self._options.body_bytes_max:
            self._stop(PayloadTooLarge(limit_bytes=self._options.body_bytes_max))
        guard = self._edge.guard
        if guard is not None and (self._chunked or self._content_length > self._options.stranger_bytes_max):
            stranger = guard.stranger(self._authorization, self._cookie)
            if stranger is not None:
                self._stop(stranger)  # Its body is not worth the memory.
        if self._expects and self._version == "1.1":
            self._connection.owe_continue()

    def _target_host(self) -> bytes | None:
        """An absolute URL names the host itself, and then the header does not count."""
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
            self._stop(MethodNotAllowed("CONNECT", allow="DELETE, GET, POST, PUT"))
        if self._says_upgrade and parser.should_upgrade():
            return
        self.within = False
        exchange.path, _, exchange.query = self._url.partition(b"?")
        exchange.body = self._body if not self._more else b"".join((self._body, *self._more))
        exchange.content_type = self._content_type
        exchange.authorization = self._authorization
        exchange.request_id, exchange.traceparent = self._request_id, self._traceparent
        if self._cookie or self._etags:
            exchange.cookie, exchange.etags = self._cookie, self._etags
            exchange.by_own_page = self._origin is not None or self._site == b"same-origin"
        exchange.ends_connection = not parser.should_keep_alive()
        if self._says_connection or exchange.ends_connection:
            exchange.old = self._version == "1.0"
        if self._new_head:
            self._learn(exchange)
        denial = self._denial
        self._clear()
        self._connection.received(exchange, denial)

"""One request and its reply: its place in the order of replies on a connection, and the reply as bytes."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.core.decide.owners import owner_of
from driftq.core.owners import OwnedKind
from driftq.errors import (
    DriftQError,
    MethodNotAllowed,
    ResourceExhausted,
    TenantMismatch,
    Unauthenticated,
)
from driftq.telemetry.log_context import ids
from driftq.telemetry.log_lines import frames_of

if TYPE_CHECKING:
    from driftq.access.keys import ApiKey
    from driftq.http.wire.connection import ServerConnection
    from driftq.http.wire.edge import Edge

logger = logging.getLogger("driftq.http")
encode = msgspec.json.Encoder().encode

JSON = b"application/json"
NDJSON = b"application/x-ndjson; charset=utf-8"
HTML = b"text/html; charset=utf-8"
EVENTS = b"text/event-stream; charset=utf-8"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"

REASONS = {
    200: "OK",
    201: "Created",
    204: "No Content",
    302: "Found",
    304: "Not Modified",
    400: "Bad Request",
    401: "Unauthorized",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    409: "Conflict",
    413: "Content Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}

_MESSAGE_MAX = 1_000


class Internal(DriftQError):
    """An unexpected error; the server's log has the details."""


class Exchange(msgspec.Struct, eq=False):
    """A request with one reply. The reply is written when all earlier ones on the connection are.

    A struct, because one is made for each request: its fields are set in C.
    """

    edge: Edge
    connection: ServerConnection
    method: bytes
    path: bytes = b""
    query: bytes = b""
    content_type: bytes = b""
    authorization: bytes = b""
    """The header, if there is one."""
    body: bytes = b""
    request_id: bytes = b""
    """The client's, if it is valid; else it is made up with the reply."""
    traceparent: str | None = None
    """The trace that the client asks to continue."""
    cookie: bytes = b""
    """The header, if there is one."""
    etags: bytes = b""
    """Of what a browser has already (`If-None-Match`)."""
    by_own_page: bool = False
    """With a cookie: a browser says that a page of this server sent the request."""
    caller: ApiKey | None = None
    """The key that the guard has found; None without a guard."""
    topic: str = ""
    group: str = ""
    """From the path, where the route has one."""
    names: dict[str, str] = {}
    """All parameters in the path."""
    on_lost: Callable[[], None] | None = None
    """Called when the client disconnects before its reply. Only long waits set it."""
    old: bool = False
    """HTTP/1.0: no chunks, and keep-alive must be stated."""
    ends_connection: bool = False
    answer: bytes | None = None
    parked: bool = False
    """Its reply is a stream, which waits until all earlier replies are written."""

    @property
    def tenant(self) -> str | None:
        """The tenant of the request's key; None: the request may reach what any tenant owns."""
        return self.caller.tenant if self.caller is not None else None

    def shows(self, topic: str, *, stored_in: str | None = None) -> bool:
        """Whether a list in the reply may name this topic, or its messages that are stored in another."""
        return self.caller is None or (
            self.caller.reaches(topic) and self.owns(OwnedKind.TOPIC, stored_in or topic)
        )

    def owns(self, kind: OwnedKind, name: str) -> bool:
        """Whether the request may reach this: with a tenant's key, only what the tenant owns."""
        tenant = self.tenant
        return tenant is None or owner_of(self.edge.engine.state, kind, name) == tenant

    def require_tenant(self, given: str | None) -> str | None:
        """The tenant of a request: the key's, if it has one; raises TenantMismatch where another is given."""
        if self.caller is None or self.caller.tenant is None:
            return given
        if given and given != self.caller.tenant:
            raise TenantMismatch(self.caller.name, tenant=self.caller.tenant, given=given)
        return self.caller.tenant

    def reply(self, answer: bytes) -> None:
        """Send a complete reply."""
        self._send(self.identified(answer))

    def reply_parts(self, parts: Sequence[bytes], *, content_type: bytes) -> None:
        """Send a complete reply with a long body, which is copied once."""
        head = self.identified(self.edge.heads.of_length(sum(map(len, parts)), content_type=content_type))
        if self.ends_connection or self.old:
            head = with_connection(head, b"close" if self.ends_connection else b"keep-alive")
        self.connection.answered(self, b"".join((head, *parts)))

    def _send(self, answer: bytes) -> None:
        if self.ends_connection:
            answer = with_connection(answer, b"close")
        elif self.old:
            answer = with_connection(answer, b"keep-alive")
        self.connection.answered(self, answer)

    def identified(self, answer: bytes) -> bytes:
        """The same reply, or the head of one, with the id of the request after its status line."""
        request_id = self.request_id = self.request_id or self.edge.new_request_id()
        return answer.replace(b"\r\n", b"\r\nX-Request-Id: %b\r\n" % request_id, 1)

    def reply_json(self, content: object, *, status: int = 200) -> None:
        self.reply(self.edge.heads.whole(status, encode(content)))

    def reply_ok(self, body: bytes) -> None:
        """The hottest replies name the request only if its client did."""
        answer = b"%b%d\r\n\r\n%b" % (self.edge.heads.ok, len(body), body)
        if self.request_id or self.ends_connection or self.old:
            self._send(self.identified(answer) if self.request_id else answer)
        else:
            self.connection.answered(self, answer)

    def reply_done(self) -> None:
        answer = self.edge.heads.no_content
        self._send(self.identified(answer) if self.request_id else answer)

    def reply_error(self, error: DriftQError) -> None:
        self.edge.counters.refusals[error.code, type(error).__name__] += 1
        body = error_body(error)
        answer = self.edge.heads.whole(error.status, body, extra=error_headers(error))
        if self.method == b"HEAD":  # A reply to HEAD must not have a body.
            answer = answer[: -len(body)]
        self.reply(answer)

    def failed(self, error: BaseException) -> None:
        """The server's own error: logged here, reported to the client without details."""
        self.request_id = self.request_id or self.edge.new_request_id()
        logger.error(
            "a request failed: %s %s\n%s",
            self.method.decode(errors="replace"),
            self.path[:200].decode(errors="replace"),
            frames_of(error),
            extra=ids(request_id=self.request_id.decode()),
        )
        if self.answer is not None:
            self.connection.abort()  # The status is sent: only a cut connection can report the error.
        else:
            self.reply_error(Internal("an unexpected error; the server's log has it"))

    def answering(self, give: Callable[[Any], None]) -> Callable[[Any], None]:
        """A callback for the engine: errors become error replies, results go to `give`."""

        def reply(result: Any) -> None:
            if isinstance(result, DriftQError):
                self.reply_error(result)
                return
            try:
                give(result)
            except Exception as error:  # noqa: BLE001 - the engine must not see the edge's mistakes
                self.failed(error)

        return reply


# Outcomes of the engine


Outcomes = list[DriftQError | None] | DriftQError
"""None for each that succeeded; or one error for all."""


def reply_outcome(exchange: Exchange, outcome: DriftQError | None) -> None:
    if outcome is None:
        exchange.reply_done()
    else:
        exchange.reply_error(outcome)


def reply_only(exchange: Exchange, outcomes: Outcomes) -> None:
    """The outcome of a request for one."""
    reply_outcome(exchange, outcomes if isinstance(outcomes, DriftQError) else outcomes[0])


def reply_each(exchange: Exchange, done: bytes, errors: dict[int, DriftQError], outcomes: Outcomes) -> None:
    """`done`, or its error, for each in order; `errors` are those, by index, that could not be decoded."""
    if isinstance(outcomes, DriftQError):
        exchange.reply_error(outcomes)
        return
    results = list(outcomes)
    for slot, error in sorted(errors.items()):
        results.insert(slot, error)
    count_refusals(exchange, results)
    texts = [done if result is None else error_body(result) for result in results]
    exchange.reply_ok(b'{"results":[%b]}' % b",".join(texts))


def count_refusals(exchange: Exchange, results: Iterable[object]) -> None:
    """Count the refused items of a batch by their errors."""
    refusals = exchange.edge.counters.refusals
    for result in results:
        if isinstance(result, DriftQError):
            refusals[result.code, type(result).__name__] += 1


# Answers as bytes


class Heads:
    """The start of every reply up to its length, one for each status; the date is set once a second."""

    __slots__ = ("_by_status", "created", "no_content", "ok")

    def __init__(self) -> None:
        self.refresh()

    def refresh(self) -> None:
        date = formatdate(usegmt=True).encode()
        self._by_status = {
            status: b"HTTP/1.1 %d %b\r\nDate: %b\r\n" % (status, reason.encode(), date)
            for status, reason in REASONS.items()
        }
        self.ok = self._by_status[200] + b"Content-Type: application/json\r\nContent-Length: "
        self.created = self._by_status[201] + b"Content-Type: application/json\r\nContent-Length: "
        self.no_content = self._by_status[204] + b"\r\n"

    def whole(self, status: int, body: bytes, *, content_type: bytes = JSON, extra: bytes = b"") -> bytes:
        """A complete reply; `extra` are header lines, each with its line end."""
        return b"%b%bContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            self._by_status[status],
            extra,
            content_type,
            len(body),
            body,
        )

    def of_length(self, length: int, *, content_type: bytes) -> bytes:
        """The head of a reply whose body follows."""
        return b"%bContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (
            self._by_status[200],
            content_type,
            length,
        )

    def bare(self, status: int, *, extra: bytes = b"") -> bytes:
        """A reply without a body, of a status that never has one."""
        return b"%b%b\r\n" % (self._by_status[status], extra)

    def stream(self, *, content_type: bytes, chunked: bool, close: bool) -> bytes:
        """The head of a reply of unknown length; without chunks it ends with the connection."""
        return b"%bContent-Type: %b\r\nCache-Control: no-store\r\n%b%b\r\n" % (
            self._by_status[200],
            content_type,
            b"Transfer-Encoding: chunked\r\n" if chunked else b"",
            b"Connection: close\r\n" if close else b"",
        )


def chunk(content: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(content), content)


def with_connection(answer: bytes, word: bytes) -> bytes:
    """The same reply with a Connection header after its status line."""
    return answer.replace(b"\r\n", b"\r\nConnection: %b\r\n" % word, 1)


def error_fields(error: DriftQError) -> dict[str, Any]:
    """An error in its wire form: code and message, then its class and the fields it was raised with."""
    fields: dict[str, Any] = {"error": error.code, "message": _short(error.message)}
    if error.reason is not None:
        fields["reason"] = error.reason
    if isinstance(error, ResourceExhausted):
        fields["retry_after_ms"] = error.retry_after_ms
    fields["kind"] = type(error).__name__
    for name, value in vars(error).items():
        if name not in fields:
            fields[name] = _short(value) if isinstance(value, str) else value
    return fields


def _short(text: str) -> str:
    return text if len(text) <= _MESSAGE_MAX else text[:_MESSAGE_MAX] + "…"


def error_body(error: DriftQError) -> bytes:
    return encode(error_fields(error))


def error_headers(error: DriftQError) -> bytes:
    """Header lines that belong to an error."""
    if isinstance(error, MethodNotAllowed):
        return b"Allow: %b\r\n" % error.allow.encode()
    if isinstance(error, Unauthenticated):
        return b"WWW-Authenticate: Bearer\r\n"
    if isinstance(error, ResourceExhausted):
        return b"Retry-After: %d\r\n" % max(1, math.ceil(error.retry_after_ms / 1000))
    return b""

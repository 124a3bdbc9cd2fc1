"""Replies as bytes: prepared status lines and heads, followed by the bodies."""

from __future__ import annotations

import math
from email.utils import formatdate
from typing import Any

import msgspec

from driftq.errors import DriftQError, MethodNotAllowed, ResourceExhausted

JSON = b"application/json"
NDJSON = b"application/x-ndjson; charset=utf-8"
HTML = b"text/html; charset=utf-8"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

REASONS = {
    200: "OK",
    201: "Created",
    204: "No Content",
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
_encode = msgspec.json.Encoder().encode


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


LAST_CHUNK = b"0\r\n\r\n"


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
    return _encode(error_fields(error))


def error_headers(error: DriftQError) -> bytes:
    """Header lines that belong to an error."""
    if isinstance(error, MethodNotAllowed):
        return b"Allow: %b\r\n" % error.allow.encode()
    if isinstance(error, ResourceExhausted):
        return b"Retry-After: %d\r\n" % max(1, math.ceil(error.retry_after_ms / 1000))
    return b""

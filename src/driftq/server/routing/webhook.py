"""A router behind HTTP: each message is posted to a URL, and the answer is the decision.

    POST URL   {"topic": …, "message": {"key": …, "value": …, "envelope": {…}}}
    200        {"label": …, "target_topic": …, "partition_override": …, "meta": {…}}, any of them left out
    204        no decision

Anything else is a failure, and so is an answer that takes longer than the timeout.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import urlsplit

import msgspec

from driftq.model import Envelope, Message, RoutingDecision

_decode = msgspec.json.Decoder(RoutingDecision).decode
_encode = msgspec.json.Encoder().encode
_EMPTY = Envelope()


class WebhookFailed(Exception):
    """The router behind the URL did not decide."""


class WebhookRouter:
    """Asks one URL; each thread keeps a connection of its own."""

    def __init__(self, url: str, *, timeout_ms: int, topics: Collection[str] | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address like http://127.0.0.1:9000/route")
        self.url = url
        self.topics = frozenset(topics) if topics else None
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port = parts.hostname, parts.port
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._timeout_s = timeout_ms / 1000
        self._local = threading.local()
        self._open: list[HTTPConnection] = []

    def __call__(self, topic: str, message: Message, /) -> RoutingDecision | None:
        body = _encode(
            {
                "topic": topic,
                "message": {
                    "key": message.key,
                    "value": message.value,
                    "envelope": message.envelope or _EMPTY,
                },
            }
        )
        try:
            status, content = self._post(body)
        except (OSError, HTTPException):
            self._forget()  # The connection that was kept may have been closed meanwhile: once more, anew.
            status, content = self._post(body)
        if status == 204:
            return None
        if status != 200:
            raise WebhookFailed(f"{self.url} answered {status}")
        return _decode(content)

    def _post(self, body: bytes) -> tuple[int, bytes]:
        connection: HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._kind(self._host, self._port, timeout=self._timeout_s)
            self._local.connection = connection
            self._open.append(connection)
        connection.request("POST", self._target, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def _forget(self) -> None:
        self._local.connection.close()
        self._open.remove(self._local.connection)
        self._local.connection = None

    def close(self) -> None:
        """Close what is kept; nobody is asked any more."""
        for connection in self._open:
            connection.close()

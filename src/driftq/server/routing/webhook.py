"""A router behind HTTP: each message is posted to a URL, and the answer is the decision.

    POST URL   {"topic": …, "message": {"key": …, "value": …, "envelope": {…}}}
    200        {"label": …, "target_topic": …, "partition_override": …, "meta": {…}}, any of them left out
    204        no decision

Anything else is a failure, and so is an answer that takes longer than the timeout.
"""

from __future__ import annotations

import threading
from collections.abc import Collection
from urllib.parse import urlsplit

import msgspec

from driftq.errors import InvalidArgument, ServerUnreachable
from driftq.model import Envelope, Message, RoutingDecision
from driftq.model.options.credentials import Credentials
from driftq.transport.blocking import BlockingConnection
from driftq.transport.endpoint import Endpoint

_decode = msgspec.json.Decoder(RoutingDecision).decode
_encode = msgspec.json.Encoder().encode
_EMPTY = Envelope()


class WebhookFailed(Exception):
    """The router behind the URL did not decide."""


class WebhookRouter:
    """Posts to one URL; each thread keeps a connection of its own."""

    def __init__(
        self, url: str, *, timeout_ms: int, topics: Collection[str] | None = None, ca_file: str | None = None
    ) -> None:
        """The router is not this server: it gets no API key."""
        parts = urlsplit(url)
        try:
            self._endpoint = Endpoint.of(
                f"{parts.scheme}://{parts.netloc}",
                timeout_s=timeout_ms / 1000,
                credentials=Credentials(ca_file=ca_file),
            )
        except InvalidArgument:
            raise ValueError(f"{url!r} is not an address like http://127.0.0.1:9000/route") from None
        self.url = url
        self.topics = frozenset(topics) if topics else None
        self._target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        self._local = threading.local()
        self._open: list[BlockingConnection] = []

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
        except ServerUnreachable:
            status, content = self._post_again(body)
        if status == 204:
            return None
        if status != 200:
            raise WebhookFailed(f"{self.url} answered {status}")
        return _decode(content)

    def _post(self, body: bytes) -> tuple[int, bytes]:
        connection: BlockingConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = BlockingConnection(self._endpoint)
            self._open.append(connection)
        response = connection.send("POST", self._target, body=body)
        return response.status, response.read()

    def _post_again(self, body: bytes) -> tuple[int, bytes]:
        """On a new connection: the other side may have closed the old one."""
        try:
            return self._post(body)
        except ServerUnreachable as unreachable:
            raise WebhookFailed(f"{self.url} did not answer: {unreachable.cause}") from unreachable

    def close(self) -> None:
        """Close the connections of all threads."""
        for connection in self._open:
            connection.close()

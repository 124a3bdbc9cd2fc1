"""One request and its place in the order of replies on its connection."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from driftq.errors import DriftQError
from driftq.http.wire import responses

if TYPE_CHECKING:
    from driftq.http.wire.connection import ServerConnection
    from driftq.http.wire.edge import Edge

logger = logging.getLogger("driftq.http")
_encode = msgspec.json.Encoder().encode


class Internal(DriftQError):
    """An unexpected error; the server's log has the details."""


class Exchange:
    """A request with one reply. The reply is written when all earlier ones on the connection are."""

    __slots__ = (
        "answer",
        "body",
        "connection",
        "content_type",
        "edge",
        "ends_connection",
        "group",
        "method",
        "names",
        "old",
        "on_lost",
        "parked",
        "path",
        "query",
        "topic",
    )

    def __init__(self, edge: Edge, connection: ServerConnection, method: bytes) -> None:
        self.edge = edge
        self.connection = connection
        self.method = method
        self.path = b""
        self.query = b""
        self.body = b""
        self.content_type = b""
        self.topic = ""
        self.group = ""
        """From the path, where the route has one."""
        self.names: dict[str, str] = {}
        """All parameters in the path."""
        self.on_lost: Callable[[], None] | None = None
        """Called when the client disconnects before its reply. Only long waits set it."""
        self.old = False
        """HTTP/1.0: no chunks, and keep-alive must be stated."""
        self.ends_connection = False
        self.answer: bytes | None = None
        self.parked = False
        """Its reply is a stream, which waits until all earlier replies are written."""

    def reply(self, answer: bytes) -> None:
        """Send a complete reply."""
        if self.ends_connection:
            answer = responses.with_connection(answer, b"close")
        elif self.old:
            answer = responses.with_connection(answer, b"keep-alive")
        self.connection.answered(self, answer)

    def reply_json(self, content: object, *, status: int = 200) -> None:
        self.reply(self.edge.heads.whole(status, _encode(content)))

    def reply_ok(self, body: bytes) -> None:
        self.reply(b"%b%d\r\n\r\n%b" % (self.edge.heads.ok, len(body), body))

    def reply_done(self) -> None:
        self.reply(self.edge.heads.no_content)

    def reply_error(self, error: DriftQError) -> None:
        body = responses.error_body(error)
        answer = self.edge.heads.whole(error.status, body, extra=responses.error_headers(error))
        if self.method == b"HEAD":  # A reply to HEAD must not have a body.
            answer = answer[: -len(body)]
        self.reply(answer)

    def failed(self, error: BaseException) -> None:
        """The server's own error: logged here, reported to the client without details."""
        logger.error("a request failed: %s %s", self.method, self.path[:200], exc_info=error)
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

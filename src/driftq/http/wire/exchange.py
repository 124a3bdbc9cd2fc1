"""One request and its place in the order of answers on its connection."""

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
    """Something that should not have happened; what it was is in the server's log."""


class Exchange:
    """A request that wants one answer. The answer is written when all before it on the connection are."""

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
        """All names in the path."""
        self.on_lost: Callable[[], None] | None = None
        """Called when the client goes away before it has its answer. Only those who wait long have one."""
        self.old = False
        """HTTP/1.0: no chunks, and keep-alive has to be said."""
        self.ends_connection = False
        self.answer: bytes | None = None
        self.parked = False
        """Its answer is a stream, which has to wait until it is first in line."""

    def reply(self, answer: bytes) -> None:
        """Give a complete answer."""
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
        if self.method == b"HEAD":  # Whatever it is told, it must not get a body.
            answer = answer[: -len(body)]
        self.reply(answer)

    def failed(self, error: BaseException) -> None:
        """This server's own mistake: logged here, told to the client without details."""
        logger.error("a request failed: %s %s", self.method, self.path[:200], exc_info=error)
        if self.answer is not None:
            self.connection.abort()  # A cut connection says what a status no longer can.
        else:
            self.reply_error(Internal("an unexpected error; the server's log has it"))

    def answering(self, give: Callable[[Any], None]) -> Callable[[Any], None]:
        """A reply for the engine: errors are answered as such, results go to `give`."""

        def reply(result: Any) -> None:
            if isinstance(result, DriftQError):
                self.reply_error(result)
                return
            try:
                give(result)
            except Exception as error:  # noqa: BLE001 - the engine must not see the edge's mistakes
                self.failed(error)

        return reply

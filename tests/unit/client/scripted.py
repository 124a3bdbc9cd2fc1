"""A server that says what it was told to say: each request gets the next answer of a script."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from httptools import HttpRequestParser

from driftq.client.wire.connection import HttpConnection
from driftq.errors import DriftQError, ServerUnreachable
from driftq.http.wire.exchange import Heads, error_body, error_headers

DROP = "drop the connection"
SILENCE = "say nothing"
REFUSE = "refuse the connection"

Reply = Callable[["Request"], Any] | DriftQError | str


@dataclass
class Request:
    method: str
    path: str
    body: bytes

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.body.splitlines()]

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


def stored(request: Request) -> dict[str, Any]:
    """Every message of a batch is stored at offset 0."""
    results = [
        {"status": "produced", "topic": line["topic"], "partition": 0, "offset": 0, "duplicate": False}
        for line in request.lines
    ]
    return {"produced": len(results), "failed": 0, "results": results}


def acked(request: Request) -> dict[str, Any]:
    return {"results": [{"status": "acked"} for _ in request.json["acks"]]}


@dataclass
class Script:
    """A connector: what it connects to answers from `replies`; the last reply stays."""

    replies: list[Reply] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    url: str = "http://script"
    host: str = "script"
    prefix: str = ""

    hold: asyncio.Event | None = None
    """While this is not set nothing is answered."""
    open: list["_ServerEnd"] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    @staticmethod
    def direct() -> None:
        """The script is played on the client's loop alone."""

    async def connect(self, *, within_s: float) -> HttpConnection:
        if self.replies and self.replies[0] == REFUSE:
            self.replies.pop(0)
            raise ServerUnreachable(self.url, cause="connection refused")
        self.connections += 1
        connection = HttpConnection()
        connection.connection_made(_ServerEnd(self, connection))  # type: ignore[arg-type]
        return connection

    async def close(self) -> None:
        pass


class _ServerEnd:
    """The transport that the client's connection writes to, and the server behind it."""

    def __init__(self, script: Script, connection: HttpConnection) -> None:
        self._script = script
        self._connection = connection
        self._parser = HttpRequestParser(self)
        self._queue: asyncio.Queue[Request] = asyncio.Queue()
        self._task = asyncio.get_running_loop().create_task(self._answer())
        self._path = b""
        self._body = b""
        self._lost = False

    def write(self, octets: bytes) -> None:
        self._parser.feed_data(octets)

    def on_url(self, url: bytes) -> None:
        self._path = url

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        request = Request(self._parser.get_method().decode(), self._path.decode(), self._body)
        self._body = b""
        self._script.requests.append(request)
        self._queue.put_nowait(request)

    async def _answer(self) -> None:
        while True:
            request = await self._queue.get()
            if self._script.hold is not None:
                await self._script.hold.wait()
            replies = self._script.replies
            reply = replies.pop(0) if len(replies) > 1 else replies[0]
            if reply == DROP:
                self.close()
                return
            if reply == SILENCE:
                continue
            if isinstance(reply, DriftQError):
                head = Heads().whole(reply.status, error_body(reply), extra=error_headers(reply))
            else:
                assert callable(reply)
                head = Heads().whole(200, msgspec.json.encode(reply(request)))
            self._connection.data_received(head)

    def close(self) -> None:
        if not self._lost:
            self._lost = True
            asyncio.get_running_loop().call_soon(self._connection.connection_lost, None)
            if self._task is not asyncio.current_task():
                self._task.cancel()

    abort = close

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

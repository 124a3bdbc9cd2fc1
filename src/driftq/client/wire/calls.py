"""Single calls: one request and its response, over a small pool of connections.

A repeatable call is repeated until it has a response or its time is over. The caller says which calls are
repeatable: the server may have processed a call whose response was lost.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from driftq.client.backoff import RetryBackoff
from driftq.client.options import ClientOptions
from driftq.client.wire.caller import is_stepping
from driftq.client.wire.connection import ConnectionLost, HttpConnection, LineReader
from driftq.client.wire.connector import Connector
from driftq.client.wire.encoding import RequestWriter, encode
from driftq.errors import ClientClosed, DriftQError, ResourceExhausted, ServerUnreachable, UsedAfterFork
from driftq.forking import in_forked_child
from driftq.transport.endpoint import request_headers
from driftq.transport.errors import is_transient, read_error
from driftq.transport.paths import Query

_KEPT_MAX = 8
_KEPT_S = 60.0
"""The server lets go of idle connections after 90 s."""


class Calls:
    """Calls to one server."""

    def __init__(self, connector: Connector, options: ClientOptions) -> None:
        self.connector = connector
        self.options = options
        headers = request_headers(options.api_key)
        self.writer = RequestWriter(host=connector.host, prefix=connector.prefix, headers=headers)
        self.direct = connector.direct()
        """Takes the requests of stepped calls; None where the server is on this client's own loop."""
        self._kept: list[HttpConnection] = []
        self._unusable: Callable[[], Exception] | None = None
        """Makes the error of every further call."""
        in_forked_child(self._reset_in_child)

    def _reset_in_child(self) -> None:
        """The pooled connections belong to the parent."""
        self._kept = []

    def left_behind(self, what: str) -> Calls:
        """Calls for an object that a forked child inherited: each raises UsedAfterFork."""
        calls = Calls(self.connector, self.options)
        calls._unusable = lambda: UsedAfterFork(what, instead="call consume() in this process")
        return calls

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        repeatable: bool,
        kind: Any = Any,
        attempt_s: float | None = None,
    ) -> Any:
        """The decoded response, None when it is empty; raises the error that the server sent."""
        octets = self.writer.request(method, path, query=query, body=None if body is None else encode(body))
        content = await self.send(octets, repeatable=repeatable, attempt_s=attempt_s)
        return msgspec.json.decode(content, type=kind) if content else None

    async def delete(self, path: str, *, gone: type[DriftQError]) -> None:
        """Delete the resource at a path; raises `gone` when it did not exist before the first attempt."""
        try:
            await self.call("DELETE", path, repeatable=False)
        except DriftQError as failure:
            if not is_transient(failure):
                raise
            try:
                await self.call("DELETE", path, repeatable=True)
            except gone:
                pass  # The first call, whose response was lost, deleted it.

    async def send(self, octets: bytes, *, repeatable: bool, attempt_s: float | None = None) -> bytes:
        """The body of the response. `attempt_s` replaces the usual time limit of one attempt."""
        attempt_s = attempt_s or self.options.attempt_timeout_s
        end = time.monotonic() + max(attempt_s if not repeatable else 0.0, self.options.timeout_s)
        direct = self.direct if is_stepping() else None
        backoff = RetryBackoff()
        while True:
            left_s = max(0.1, min(attempt_s, end - time.monotonic()))
            try:
                if direct is None:
                    return await self._try(octets, within_s=left_s)
                return _body_of(*direct.request(octets, within_s=left_s))
            except DriftQError as failure:
                retry_after_s = (
                    failure.retry_after_ms / 1000 if isinstance(failure, ResourceExhausted) else 0.0
                )
                pause_s = backoff.next_s(at_least_s=retry_after_s)
                if not repeatable or not is_transient(failure) or time.monotonic() + pause_s >= end:
                    raise
                if direct is None:
                    await asyncio.sleep(pause_s)
                else:
                    direct.pause(pause_s)

    async def _try(self, octets: bytes, *, within_s: float) -> bytes:
        connection = await self._take(within_s)
        try:
            status, body = await connection.request(octets, within_s=within_s)
        except ConnectionLost as lost:
            raise ServerUnreachable(self.connector.url, cause=str(lost)) from None
        finally:
            self._give_back(connection)
        return _body_of(status, body)

    async def open_stream(self, octets: bytes) -> LineReader:
        """A streamed response on a connection of its own; raises if the server sends an error."""
        within_s = self.options.attempt_timeout_s
        connection = await self._take(within_s)
        stream = connection.stream(octets)
        try:
            status = await asyncio.wait_for(stream.status, within_s)
            if status != 200:
                raise read_error(status, await asyncio.wait_for(stream.body(), within_s))
        except (ConnectionLost, TimeoutError) as lost:
            connection.close()
            cause = str(lost) or "no response in time"
            raise ServerUnreachable(self.connector.url, cause=cause) from None
        except BaseException:
            connection.close()
            raise
        return stream

    async def lines(self, octets: bytes) -> AsyncIterator[bytes]:
        """The lines of a response, in blocks of complete lines."""
        stream = await self.open_stream(octets)
        rest = b""
        try:
            while (piece := await stream.pieces()) is not None:
                lines, newline, rest = (rest + piece).rpartition(b"\n")
                if newline:
                    yield lines + newline
        except ConnectionLost as lost:
            raise ServerUnreachable(self.connector.url, cause=f"the response broke off ({lost})") from None
        finally:
            stream.close()

    async def _take(self, within_s: float) -> HttpConnection:
        if self._unusable is not None:
            raise self._unusable()
        oldest = asyncio.get_running_loop().time() - _KEPT_S
        while self._kept:
            connection = self._kept.pop()
            if connection.idle and connection.idle_since > oldest:
                return connection
            connection.close()
        return await self.connector.connect(within_s=within_s)

    def _give_back(self, connection: HttpConnection) -> None:
        if connection.idle and len(self._kept) < _KEPT_MAX and self._unusable is None:
            self._kept.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        self._unusable = ClientClosed
        if self.direct is not None:
            self.direct.close()
        for connection in self._kept:
            connection.close()
        self._kept.clear()


def _body_of(status: int, body: bytes) -> bytes:
    """The body of a response; raises the error that it carries."""
    if not 200 <= status < 300:
        raise read_error(status, body)
    return body

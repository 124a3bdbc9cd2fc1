"""Single calls: one request and its answer, over connections that are kept for the next.

A call that may be repeated is, until it is answered or its time is over. Whether it may be is for the caller
to say: a call whose answer was lost may have been done.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec

from driftq.client.backoff import RetryBackoff
from driftq.client.options import ClientOptions
from driftq.client.wire.connection import ConnectionLost, HttpConnection, LineReader
from driftq.client.wire.connector import Connector
from driftq.client.wire.encoding import Query, RequestWriter, encode
from driftq.client.wire.errors import is_passing, read_refusal
from driftq.errors import ClientClosed, DriftQError, ResourceExhausted, ServerUnreachable, UsedAfterFork
from driftq.forking import in_forked_child

_KEPT_MAX = 8
_KEPT_S = 60.0
"""The server lets go of idle connections after 90 s."""


class Calls:
    """The way to one server."""

    def __init__(self, connector: Connector, options: ClientOptions) -> None:
        self.connector = connector
        self.options = options
        self.writer = RequestWriter(host=connector.host, prefix=connector.prefix, api_key=options.api_key)
        self._kept: list[HttpConnection] = []
        self._refusal: Callable[[], Exception] | None = None
        """Why nothing can be asked any more."""
        in_forked_child(self._begin_anew)

    def _begin_anew(self) -> None:
        """Connections are the parent's; the next call makes one."""
        self._kept = []

    def left_behind(self, what: str) -> Calls:
        """For something of the parent's in a forked child: every call says that it is."""
        calls = Calls(self.connector, self.options)
        calls._refusal = lambda: UsedAfterFork(what, instead="call consume() in this process")
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
        """The decoded answer, None when it is empty; raises the error that the server answered."""
        octets = self.writer.request(method, path, query=query, body=None if body is None else encode(body))
        content = await self.send(octets, repeatable=repeatable, attempt_s=attempt_s)
        return msgspec.json.decode(content, type=kind) if content else None

    async def delete(self, path: str, *, gone: type[DriftQError]) -> None:
        """Delete what has this path; raises `gone` when it was not there before our first try."""
        try:
            await self.call("DELETE", path, repeatable=False)
        except DriftQError as failure:
            if not is_passing(failure):
                raise
            try:
                await self.call("DELETE", path, repeatable=True)
            except gone:
                pass  # The first call, whose answer was lost, has done it.

    async def send(self, octets: bytes, *, repeatable: bool, attempt_s: float | None = None) -> bytes:
        """The body of the answer to a whole request. `attempt_s`: the answer may take longer than most."""
        loop = asyncio.get_running_loop()
        attempt_s = attempt_s or self.options.attempt_timeout_s
        end = loop.time() + max(attempt_s if not repeatable else 0.0, self.options.timeout_s)
        backoff = RetryBackoff()
        while True:
            left_s = max(0.1, min(attempt_s, end - loop.time()))
            try:
                return await self._try(octets, within_s=left_s)
            except DriftQError as failure:
                asked_s = failure.retry_after_ms / 1000 if isinstance(failure, ResourceExhausted) else 0.0
                pause_s = backoff.next_s(at_least_s=asked_s)
                if not repeatable or not is_passing(failure) or loop.time() + pause_s >= end:
                    raise
                await asyncio.sleep(pause_s)

    async def _try(self, octets: bytes, *, within_s: float) -> bytes:
        connection = await self._take(within_s)
        try:
            status, body = await connection.request(octets, within_s=within_s)
        except ConnectionLost as lost:
            raise ServerUnreachable(self.connector.url, cause=str(lost)) from None
        finally:
            self._give_back(connection)
        if not 200 <= status < 300:
            raise read_refusal(status, body)
        return body

    async def open_stream(self, octets: bytes) -> LineReader:
        """An answer that comes bit by bit, on a connection of its own; raises if it is a refusal."""
        within_s = self.options.attempt_timeout_s
        connection = await self._take(within_s)
        stream = connection.stream(octets)
        try:
            status = await asyncio.wait_for(stream.status, within_s)
            if status != 200:
                raise read_refusal(status, await asyncio.wait_for(stream.whole(), within_s))
        except (ConnectionLost, TimeoutError) as lost:
            connection.close()
            cause = str(lost) or "no answer in time"
            raise ServerUnreachable(self.connector.url, cause=cause) from None
        except BaseException:
            connection.close()
            raise
        return stream

    async def lines(self, octets: bytes) -> AsyncIterator[bytes]:
        """The lines of an answer, in pieces of whole lines."""
        stream = await self.open_stream(octets)
        rest = b""
        try:
            while (piece := await stream.pieces()) is not None:
                whole, newline, rest = (rest + piece).rpartition(b"\n")
                if newline:
                    yield whole + newline
        except ConnectionLost as lost:
            raise ServerUnreachable(self.connector.url, cause=f"the answer broke off ({lost})") from None
        finally:
            stream.close()

    async def _take(self, within_s: float) -> HttpConnection:
        if self._refusal is not None:
            raise self._refusal()
        oldest = asyncio.get_running_loop().time() - _KEPT_S
        while self._kept:
            connection = self._kept.pop()
            if connection.idle and connection.idle_since > oldest:
                return connection
            connection.close()
        return await self.connector.connect(within_s=within_s)

    def _give_back(self, connection: HttpConnection) -> None:
        if connection.idle and len(self._kept) < _KEPT_MAX and self._refusal is None:
            self._kept.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        self._refusal = ClientClosed
        for connection in self._kept:
            connection.close()
        self._kept.clear()

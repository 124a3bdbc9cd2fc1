"""Blocking calls to a server, for the processes of Spark.

A call without a response is repeated for a while, so that a server may be restarted under a running query.
So only calls that may be made twice are made here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from driftq.errors import DriftQError, ServerUnreachable
from driftq.model.backoff import doubled
from driftq.model.options.credentials import NO_CREDENTIALS, Credentials
from driftq.transport.blocking import BlockingConnection, BlockingResponse
from driftq.transport.endpoint import Endpoint
from driftq.transport.errors import is_transient, read_error
from driftq.transport.paths import Query

PATIENCE_S = 30.0
ANSWER_S = 30.0
_CHECK_PATIENCE_S = 0.5
_CHECK_ANSWER_S = 5.0
_WAIT_S = 0.1
_WAIT_MAX_S = 2.0

_Found = TypeVar("_Found")


class Server:
    """One server, over one connection that the first call opens."""

    def __init__(
        self,
        url: str,
        *,
        credentials: Credentials = NO_CREDENTIALS,
        patience_s: float = PATIENCE_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._connection = BlockingConnection(Endpoint.of(url, timeout_s=answer_s, credentials=credentials))
        self._patience_s = patience_s

    def get(self, path: str, kind: type[_Found], query: Query | None = None) -> _Found:
        """The response, decoded; raises the error that the server sent, or ServerUnreachable."""
        return msgspec.json.decode(self.content(path, query), type=kind)

    def content(self, path: str, query: Query | None = None) -> bytes:
        """The body of the response."""
        return self._repeated(lambda: self._send("GET", path, query=query).read())

    def post(self, path: str, body: Any, kind: type[_Found]) -> _Found:
        """The response to a body; None if it is empty."""
        octets = msgspec.json.encode(body)
        content = self._repeated(lambda: self._send("POST", path, body=octets).read())
        return msgspec.json.decode(content or b"null", type=kind)

    def lines(self, path: str, query: Query, *, block_bytes: int) -> Iterator[bytes]:
        """An NDJSON response in blocks of complete lines; raises ServerUnreachable where it breaks off."""
        response = self._repeated(lambda: self._send("GET", path, query=query))
        yield from response.line_blocks(block_bytes)

    def close(self) -> None:
        self._connection.close()

    __del__ = close

    def _repeated(self, call: Callable[[], _Found]) -> _Found:
        """The result of a call that is repeated while its failure is transient and there is time left."""
        end = time.monotonic() + self._patience_s
        wait = _WAIT_S
        while True:
            try:
                return call()
            except DriftQError as failure:
                if not is_transient(failure) or time.monotonic() + wait > end:
                    raise
            time.sleep(wait)
            wait = doubled(wait, cap=_WAIT_MAX_S)

    def _send(
        self, method: str, path: str, *, query: Query | None = None, body: bytes | None = None
    ) -> BlockingResponse:
        response = self._connection.send(method, path, query=query, body=body)
        if response.status >= 400:
            raise read_error(response.status, response.read())
        return response


def check_server(url: str, credentials: Credentials = NO_CREDENTIALS) -> None:
    """Raise ServerUnreachable, with a text that says what to do; or Unauthenticated, when a key is needed."""
    server = Server(url, credentials=credentials, patience_s=_CHECK_PATIENCE_S, answer_s=_CHECK_ANSWER_S)
    try:
        server.content("/v1/whoami")
    except ServerUnreachable as away:
        raise ServerUnreachable(
            url, cause=f"{away.cause}; start it with driftq serve, or pass --url"
        ) from None
    finally:
        server.close()

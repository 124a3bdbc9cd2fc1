"""One connection to a server over HTTP, for the client commands: JSON in, JSON out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from driftq.settings import load_credentials
from driftq.transport.blocking import BlockingConnection, BlockingResponse
from driftq.transport.endpoint import Endpoint
from driftq.transport.errors import read_error
from driftq.transport.paths import Query

TIMEOUT_S = 30.0


class Connection:
    """Calls to one server; each raises the error that the server sent, or ServerUnreachable."""

    def __init__(self, url: str, *, timeout_s: float | None = TIMEOUT_S) -> None:
        endpoint = Endpoint.of(url, timeout_s=timeout_s, credentials=load_credentials())
        self._connection = BlockingConnection(endpoint)

    def get(self, path: str, query: Query | None = None) -> Any:
        return self._call("GET", path, query=query)

    def text(self, path: str) -> str:
        """A response that is not JSON."""
        return self._send("GET", path).read().decode()

    def post(self, path: str, body: Any) -> Any:
        """The decoded response, None for 204."""
        return self._call("POST", path, body=body)

    def put(self, path: str, body: Any) -> Any:
        return self._call("PUT", path, body=body)

    def delete(self, path: str) -> Any:
        return self._call("DELETE", path)

    def lines(self, path: str, query: Query) -> Iterator[bytes]:
        """The lines of a response as they arrive, until the server ends it."""
        return self.stream(path, query).lines()

    def stream(self, path: str, query: Query) -> BlockingResponse:
        """A response that is read line by line while it arrives."""
        return self._send("GET", path, query=query)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _call(self, method: str, path: str, *, query: Query | None = None, body: Any = None) -> Any:
        content = self._send(method, path, query=query, body=body).read()
        return json.loads(content) if content else None

    def _send(
        self, method: str, path: str, *, query: Query | None = None, body: Any = None
    ) -> BlockingResponse:
        octets = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        response = self._connection.send(method, path, query=query, body=octets)
        if not 200 <= response.status < 300:
            raise read_error(response.status, response.read())
        return response

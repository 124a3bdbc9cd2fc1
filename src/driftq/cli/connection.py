"""One connection to a server over HTTP, for the client commands."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

TIMEOUT_S = 30.0

Query = Mapping[str, str | int | None]


class ServerUnreachable(Exception):
    """No answer: not confirmed, and for a request that was sent not the same as undone."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(f"no answer from {url}: {cause}")
        self.url = url
        self.cause = cause


class ServerRefused(Exception):
    """The server's answer was an error."""

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        self.status = status
        self.error = str(answer.get("error", status))
        self.message = str(answer.get("message", "the server gave no reason"))
        self.reason = answer.get("reason")
        self.retry_after_ms = answer.get("retry_after_ms")
        super().__init__(f"{self.status} {self.error}: {self.message}")


class LineStream:
    """A stream's lines."""

    def __init__(self, url: str, answer: HTTPResponse, connected: socket.socket) -> None:
        self._url = url
        self._answer = answer
        self._socket = connected

    def __iter__(self) -> Iterator[bytes]:
        try:
            while line := self._answer.readline():
                yield line
        except (OSError, HTTPException) as broken:
            raise ServerUnreachable(self._url, f"the stream broke off ({_cause(broken)})") from None

    def leftovers(self, *, within_s: float, ended: bool) -> list[bytes]:
        """The lines that are here already or come in this time; nothing can be read afterwards.

        With `ended` the server is told that nothing more is wanted, and closes behind what it has sent.
        """
        found: list[bytes] = []
        try:
            self._socket.settimeout(within_s)
            if ended:
                self._socket.shutdown(socket.SHUT_WR)
            while (line := self._answer.readline()).endswith(b"\n"):
                found.append(line)
        except (OSError, HTTPException):
            pass
        return found


class Connection:
    """Keeps its socket between calls; after a failure the next call opens another."""

    def __init__(self, url: str, *, timeout_s: float | None = TIMEOUT_S) -> None:
        parts = urlsplit(url)
        self.url = url
        self._prefix = parts.path.rstrip("/")
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._http = kind(parts.hostname or "", parts.port, timeout=timeout_s)

    def get(self, path: str, query: Query | None = None) -> Any:
        return self._read(self._ask("GET", path, query=query))

    def post(self, path: str, body: Any) -> Any:
        """The decoded answer, None for 204; ServerRefused or ServerUnreachable otherwise."""
        return self._read(self._ask("POST", path, body=body))

    def delete(self, path: str) -> Any:
        return self._read(self._ask("DELETE", path))

    def lines(self, path: str, query: Query) -> LineStream:
        """The lines of a stream as they come, until the server ends it."""
        answer = self._ask("GET", path, query=query)
        if answer.status != 200:
            self._read(answer)
        return LineStream(self.url, answer, self._socket)

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, method: str, path: str, *, query: Query | None = None, body: Any = None) -> HTTPResponse:
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = f"{self._prefix}{path}{'?' + urlencode(given) if given else ''}"
        payload = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json"} if payload is not None else {}
        try:
            self._http.request(method, target, payload, headers)
            self._socket: socket.socket = self._http.sock
            return self._http.getresponse()
        except (OSError, HTTPException) as broken:
            self.close()
            raise ServerUnreachable(self.url, _cause(broken)) from None

    def _read(self, answer: HTTPResponse) -> Any:
        try:
            content = answer.read()
        except (OSError, HTTPException) as broken:
            self.close()
            raise ServerUnreachable(self.url, _cause(broken)) from None
        try:
            decoded = json.loads(content) if content else None
        except ValueError:
            decoded = None
        if 200 <= answer.status < 300:
            return decoded
        raise ServerRefused(answer.status, decoded if isinstance(decoded, dict) else {})


def topic_path(topic: str) -> str:
    return f"/v1/topics/{quote(topic, safe='')}"


def _cause(broken: Exception) -> str:
    if isinstance(broken, OSError) and broken.strerror:
        return broken.strerror.lower()
    return str(broken) or type(broken).__name__

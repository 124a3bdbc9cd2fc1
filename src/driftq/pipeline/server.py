"""Blocking calls to a server, for the processes of Spark: plain sockets, no thread and no loop.

A call without an answer is repeated for a while, so that a server may be restarted under a running query.
Only calls that may be made twice are made here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from driftq.client.wire.address import read_address
from driftq.client.wire.errors import is_passing, read_refusal
from driftq.errors import DriftQError, ServerUnreachable
from driftq.model.backoff import doubled

PATIENCE_S = 30.0
ANSWER_S = 30.0
_WAIT_S = 0.1
_WAIT_MAX_S = 2.0

_Found = TypeVar("_Found")
_Lost = (OSError, HTTPException)


class Server:
    """One server, over one connection that is opened on need."""

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        patience_s: float = PATIENCE_S,
        answer_s: float = ANSWER_S,
    ) -> None:
        self._address = read_address(url)
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._patience_s = patience_s
        self._answer_s = answer_s
        self._connection: HTTPConnection | None = None

    def get(self, path: str, kind: type[_Found], query: Mapping[str, Any] | None = None) -> _Found:
        """The answer, decoded; raises the error that the server answered, or ServerUnreachable."""
        return msgspec.json.decode(self.content(path, query), type=kind)

    def content(self, path: str, query: Mapping[str, Any] | None = None) -> bytes:
        """The whole answer as it came."""
        return self._patiently(lambda: self._open("GET", path, query).read())

    def post(self, path: str, body: Any, kind: type[_Found]) -> _Found:
        """The answer to a body; of an empty answer, None."""
        octets = msgspec.json.encode(body)
        content = self._patiently(lambda: self._open("POST", path, body=octets).read())
        return msgspec.json.decode(content or b"null", type=kind)

    def lines(self, path: str, query: Mapping[str, Any], *, block_bytes: int) -> Iterator[bytes]:
        """An NDJSON answer in blocks of whole lines; raises ServerUnreachable where it breaks off."""
        answer = self._patiently(lambda: self._open("GET", path, query))
        rest = b""
        try:
            while block := answer.read(block_bytes):
                cut = block.rfind(b"\n") + 1
                if cut:
                    yield rest + block[:cut]
                    rest = block[cut:]
                else:
                    rest += block
        except _Lost as lost:
            self.close()
            raise ServerUnreachable(self._address.url, cause=str(lost) or "the answer ended early") from lost
        if rest:
            yield rest

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    __del__ = close

    def _patiently(self, call: Callable[[], _Found]) -> _Found:
        """Again and again, while nothing but time is missing."""
        end = time.monotonic() + self._patience_s
        wait = _WAIT_S
        while True:
            try:
                return call()
            except _Lost as lost:
                self.close()
                failure: DriftQError = ServerUnreachable(self._address.url, cause=str(lost) or "no answer")
            except DriftQError as refused:
                if not is_passing(refused):
                    raise
                failure = refused
            if time.monotonic() + wait > end:
                raise failure
            time.sleep(wait)
            wait = doubled(wait, cap=_WAIT_MAX_S)

    def _open(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: bytes | None = None
    ) -> HTTPResponse:
        if self._connection is None:
            kind = HTTPSConnection if self._address.tls else HTTPConnection
            self._connection = kind(self._address.host, self._address.port, timeout=self._answer_s)
        given = {name: value for name, value in (query or {}).items() if value is not None}
        target = self._address.prefix + path + (f"?{urlencode(given)}" if given else "")
        headers = self._headers | ({"Content-Type": "application/json"} if body is not None else {})
        self._connection.request(method, target, body, headers)
        answer = self._connection.getresponse()
        if answer.status >= 400:
            raise read_refusal(answer.status, answer.read())
        return answer


def topic_path(topic: str, rest: str = "") -> str:
    return f"/v1/topics/{quote(topic, safe='')}{rest}"

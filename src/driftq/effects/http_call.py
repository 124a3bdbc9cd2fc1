"""One HTTP request, and whether its answer arrived: the socket's side of `driftq.HttpEffect`.

Two failures are told apart, because only one of them leaves the effect unknown: nothing was sent, or a
request was sent and no whole answer came back. Redirects are never followed: they would send the request, and
what identifies the caller, to another server.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import Lock
from typing import NamedTuple
from urllib.parse import urlsplit

from driftq.errors import InvalidArgument
from driftq.forking import in_forked_child, leave_behind
from driftq.transport.blocking import cause_of

ANSWER_BYTES_MAX = 4 << 20
_BLOCK_BYTES = 64 << 10
_IDLE_MAX = 16
_EXAMPLE = "https://api.example.com/path"


class NotSent(Exception):
    """No connection: the server has nothing of the request."""


class AnswerLost(Exception):
    """The server may have done what was requested."""


class RawAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes


class ApiAddress(NamedTuple):
    """Where an API is. Its path may contain a secret, so only its origin is ever shown."""

    tls: bool
    host: str
    port: int
    target: str
    """Path and query."""

    @classmethod
    def parse(cls, url: str) -> ApiAddress:
        """Raises InvalidArgument, without the address in its text."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise InvalidArgument("url", f"write the address as {_EXAMPLE}") from None
        if parts.username is not None or parts.password is not None:
            raise InvalidArgument("url", "holds a user or a password: give them in headers")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment or not _plain(url):
            raise InvalidArgument("url", f"write the address as {_EXAMPLE}")
        tls = parts.scheme == "https"
        query = f"?{parts.query}" if parts.query else ""
        return cls(tls, parts.hostname, port or (443 if tls else 80), (parts.path or "/") + query)

    def below(self, path: str) -> str:
        """The target of a path under this address. Raises InvalidArgument."""
        if not path:
            return self.target
        if not path.startswith("/") or not _plain(path) or "#" in path or "?" in self.target:
            raise InvalidArgument("path", "begins with / and is added to an address without a query")
        return self.target.rstrip("/") + path

    @property
    def origin(self) -> str:
        """For display."""
        name = f"[{self.host}]" if ":" in self.host else self.host
        standard = self.port == (443 if self.tls else 80)
        return f"{'https' if self.tls else 'http'}://{name}{'' if standard else f':{self.port}'}"


class HttpCaller:
    """Sends requests to one server. `reuses` connections only where a request may be sent twice."""

    def __init__(self, address: ApiAddress, *, timeout_s: float, ca_file: str | None, reuses: bool) -> None:
        self._address = address
        self._timeout_s = timeout_s
        self._reuses = reuses
        self._tls = ssl.create_default_context(cafile=ca_file) if address.tls else None
        self._idle: list[HTTPConnection] = []
        self._lock = Lock()
        in_forked_child(self._forget)

    def send(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> RawAnswer:
        """Raises NotSent or AnswerLost."""
        with self._lock:
            idle = self._idle.pop() if self._idle else None
        if idle is not None:
            try:
                return self._exchange(idle, method, target, body, headers)
            except AnswerLost:
                pass  # The server may have closed it while it was idle: a new one tells.
        return self._exchange(self._connect(), method, target, body, headers)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connect(self) -> HTTPConnection:
        address = self._address
        if self._tls is None:
            connection = HTTPConnection(address.host, address.port, timeout=self._timeout_s)
        else:
            connection = HTTPSConnection(
                address.host, address.port, timeout=self._timeout_s, context=self._tls
            )
        try:
            connection.connect()
        except (OSError, HTTPException) as error:
            connection.close()
            raise NotSent(cause_of(error)) from None
        return connection

    def _exchange(
        self,
        connection: HTTPConnection,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> RawAnswer:
        end = time.monotonic() + self._timeout_s
        try:
            connection.request(method, target, body, dict(headers))
            response = connection.getresponse()
            parts: list[bytes] = []
            size = 0
            while block := response.read(_BLOCK_BYTES):
                parts.append(block)
                size += len(block)
                if size > ANSWER_BYTES_MAX or time.monotonic() > end:
                    raise HTTPException("the answer is too long, or takes too long")
            if response.length:
                raise HTTPException("the answer broke off")
        except (OSError, HTTPException) as error:
            connection.close()
            raise AnswerLost(cause_of(error)) from None
        if self._reuses and not response.will_close:
            self._give_back(connection)
        else:
            connection.close()
        named = {name.lower(): value for name, value in response.getheaders()}
        return RawAnswer(response.status, named, b"".join(parts))

    def _give_back(self, connection: HTTPConnection) -> None:
        with self._lock:
            kept = len(self._idle) < _IDLE_MAX
            if kept:
                self._idle.append(connection)
        if not kept:
            connection.close()

    def _forget(self) -> None:
        leave_behind(*self._idle)
        self._idle = []
        self._lock = Lock()


def _plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text

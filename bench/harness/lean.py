"""Connections of a client that does hardly anything, for HTTP and for Redis's protocol alike.

Bodies are made up front, an answer is searched for the few octets that matter, and nothing is decoded, so
that a comparison through Python is one of servers.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TypeVar, cast

Answered = Callable[[bytes], None]
IsWhole = Callable[[bytearray], bool]


class Connection(asyncio.Protocol):
    """One request under way at a time; `answered` gets the whole answer."""

    def __init__(self, is_whole: IsWhole, answered: Answered) -> None:
        self._is_whole = is_whole
        self.answered = answered
        self._received = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)  # uvloop's has no such base.

    def send(self, octets: bytes) -> None:
        self.transport.write(octets)

    def data_received(self, octets: bytes) -> None:
        received = self._received
        received += octets
        if self._is_whole(received):
            answer = bytes(received)
            received.clear()
            self.answered(answer)


class Lines(asyncio.Protocol):
    """A stream of lines: `received` gets all that are whole, as they came."""

    def __init__(self, received: Answered) -> None:
        self._received = received
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, octets: bytes) -> None:
        whole, found, rest = (self._rest + octets).rpartition(b"\n")
        self._rest = rest
        if found:
            self._received(whole)


def is_http_whole(received: bytearray) -> bool:
    head = received.find(b"\r\n\r\n")
    if head < 0:
        return False
    if not received.startswith(b"HTTP/1.1 20"):
        raise RuntimeError(bytes(received[:300]).decode(errors="replace"))
    field = received.find(b"Content-Length: ", 0, head)
    return field < 0 or len(received) >= head + 4 + int(received[field + 16 : received.find(b"\r\n", field)])


def has_line_ends(count: int) -> IsWhole:
    """Of Redis: an integer has one, a string two."""

    def is_whole(received: bytearray) -> bool:
        if received.startswith(b"-"):
            raise RuntimeError(bytes(received[:300]).decode(errors="replace"))
        return received.count(b"\r\n") >= count

    return is_whole


def ends_with_pong(received: bytearray) -> bool:
    """Of Redis: a request that ends with `PING` is answered when its `PONG` is there."""
    return received.endswith(b"+PONG\r\n")


P = TypeVar("P", bound=asyncio.Protocol)


async def connect(port: int, make: Callable[[], P]) -> P:
    _, protocol = await asyncio.get_running_loop().create_connection(make, "127.0.0.1", port)
    return protocol


class Pool:
    """Connections of one kind: a request waits until one of them is free."""

    def __init__(self, is_whole: IsWhole) -> None:
        self._is_whole = is_whole
        self._all: list[Connection] = []
        self._idle: deque[Connection] = deque()
        self._waiting: deque[tuple[bytes, Answered]] = deque()

    async def open(self, port: int, count: int) -> "Pool":
        for _ in range(count):
            self._all.append(await connect(port, lambda: Connection(self._is_whole, _ignore)))
        self._idle.extend(self._all)
        return self

    def send(self, request: bytes, answered: Answered) -> None:
        if self._idle:
            self._send(self._idle.popleft(), request, answered)
        else:
            self._waiting.append((request, answered))

    def _send(self, connection: Connection, request: bytes, answered: Answered) -> None:
        connection.answered = lambda answer: self._free(connection, answered, answer)
        connection.send(request)

    def _free(self, connection: Connection, answered: Answered, answer: bytes) -> None:
        if self._waiting:
            self._send(connection, *self._waiting.popleft())
        else:
            self._idle.append(connection)
        answered(answer)

    def close(self) -> None:
        for connection in self._all:
            connection.transport.close()


def _ignore(_answer: bytes) -> None:
    """For what needs no word."""


def http_post(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def resp(*words: bytes | str) -> bytes:
    """One command in Redis's protocol."""
    parts = [word if isinstance(word, bytes) else word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)

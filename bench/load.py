"""A load generator in a process of its own: so many connections, each with one request under way.

Run as `python -m bench.load PORT CONNECTIONS SECONDS`, with one whole HTTP request on standard input. Prints
the number of answers with status 200 or 204 and the seconds they took.
"""

import asyncio
import subprocess
import sys
import time
from functools import partial
from typing import cast

import uvloop


class _Caller(asyncio.Protocol):
    """Sends the same request again whenever the answer to the last one is complete."""

    def __init__(self, request: bytes, until: float, done: "asyncio.Future[None]") -> None:
        self._request = request
        self._until = until
        self._done = done
        self._received = bytearray()
        self.answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's has no such base.
        self._transport.write(self._request)

    def data_received(self, octets: bytes) -> None:
        received = self._received
        received += octets
        head = received.find(b"\r\n\r\n")
        if head < 0:
            return
        if not received.startswith((b"HTTP/1.1 200", b"HTTP/1.1 204")):
            self._done.set_exception(RuntimeError(bytes(received[:300]).decode(errors="replace")))
            return
        field = received.lower().find(b"content-length:", 0, head)
        length = int(received[field + 15 : received.find(b"\r\n", field)]) if field >= 0 else 0
        if len(received) < head + 4 + length:
            return
        received.clear()
        self.answers += 1
        if time.perf_counter() < self._until:
            self._transport.write(self._request)
        elif not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, _error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(ConnectionError("the server closed the connection"))


async def _run(port: int, connections: int, seconds: float, request: bytes) -> None:
    loop = asyncio.get_running_loop()
    began = time.perf_counter()
    callers: list[_Caller] = []
    waits: list[asyncio.Future[None]] = []
    for _ in range(connections):
        done = loop.create_future()
        new_caller = partial(_Caller, request, began + seconds, done)
        _, caller = await loop.create_connection(new_caller, "127.0.0.1", port)
        callers.append(caller)
        waits.append(done)
    await asyncio.gather(*waits)
    print(sum(caller.answers for caller in callers), time.perf_counter() - began)


def answers_per_second(port: int, request: bytes, *, connections: int, seconds: float) -> float:
    """Start the generator as a process and read what it saw."""
    ran = subprocess.run(
        [sys.executable, "-m", "bench.load", str(port), str(connections), str(seconds)],
        input=request,
        capture_output=True,
        check=False,
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr.decode())
    answers, took = ran.stdout.split()
    return int(answers) / float(took)


def http_request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


if __name__ == "__main__":
    uvloop.run(_run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.stdin.buffer.read()))

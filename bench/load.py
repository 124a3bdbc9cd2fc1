"""A load generator in a process of its own: so many connections, each with one request under way.

Run as `python -m bench.load PORT CONNECTIONS SECONDS`, with one whole HTTP request on standard input. Prints
the number of answers with status 200 or 204, the seconds they took, and the 50th, 99th and 99.9th percentile
of the time to an answer in milliseconds.
"""

import asyncio
import subprocess
import sys
import time
from dataclasses import dataclass
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
        self.waits: list[float] = []
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's has no such base.
        self._send()

    def _send(self) -> None:
        self._sent = time.perf_counter()
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
        now = time.perf_counter()
        self.waits.append(now - self._sent)
        if now < self._until:
            self._send()
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
    took = time.perf_counter() - began
    every = sorted(wait for caller in callers for wait in caller.waits)
    shares = [every[min(len(every) - 1, int(len(every) * share))] * 1000 for share in (0.5, 0.99, 0.999)]
    print(sum(caller.answers for caller in callers), took, *shares)


@dataclass(frozen=True, slots=True)
class Load:
    """What the generator saw."""

    rate: float
    p50_ms: float
    p99_ms: float
    p999_ms: float


def answers_per_second(port: int, request: bytes, *, connections: int, seconds: float) -> float:
    return run_load(port, request, connections=connections, seconds=seconds).rate


def run_load(port: int, request: bytes, *, connections: int, seconds: float) -> Load:
    """Start the generator as a process and read what it saw."""
    ran = subprocess.run(
        [sys.executable, "-m", "bench.load", str(port), str(connections), str(seconds)],
        input=request,
        capture_output=True,
        check=False,
    )
    if ran.returncode:
        raise RuntimeError(ran.stderr.decode())
    answers, took, p50_ms, p99_ms, p999_ms = ran.stdout.split()
    return Load(int(answers) / float(took), float(p50_ms), float(p99_ms), float(p999_ms))


def http_request(path: str, body: bytes) -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


if __name__ == "__main__":
    uvloop.run(_run(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.stdin.buffer.read()))

"""`python -m bench.event_append [SECONDS] [ROUNDS]`: events over HTTP on SQLite, with 1, 16 and 64 callers.

Beside them a loop of inserts into a table of SQLite, each in a synced transaction of its own. The callers are
in a process of their own, each sends its next event when it has the answer to the last one. Rounds alternate.
"""

import asyncio
import json
import sqlite3
import statistics
import subprocess
import sys
import time
import uuid
from functools import partial
from pathlib import Path
from typing import cast

import psutil

from bench.machine import Server, folder

CALLERS = (1, 16, 64)


def bare(path: Path, seconds: float) -> float:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE events (id INTEGER PRIMARY KEY, event_id TEXT UNIQUE, payload TEXT)")
    payload, done, start = "x" * 200, 0, time.perf_counter()
    while (took := time.perf_counter() - start) < seconds:
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO events (event_id, payload) VALUES (?, ?)", (str(uuid.uuid4()), payload))
        database.execute("COMMIT")
        done += 1
    database.close()
    return done / took


class Caller(asyncio.Protocol):
    """One event after the other on one connection."""

    def __init__(self, end: float, took: list[float]) -> None:
        self._end, self._took = end, took
        self.done = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        body = (
            b'{"event_id":"%b","aggregate_type":"order","aggregate_id":"%b","event_type":"OrderPlaced",'
            b'"kind":"event","operation":"append","payload":{"text":"%b"}}'
            % (uuid.uuid4().hex.encode(), uuid.uuid4().hex.encode(), b"x" * 188)
        )
        self._at = time.perf_counter()
        head = b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._transport.write(head + body)

    def data_received(self, data: bytes) -> None:
        now = time.perf_counter()
        if not data.startswith(b"HTTP/1.1 201"):
            self.done.set_exception(RuntimeError(data.decode()))
            return
        self._took.append(now - self._at)
        if now < self._end:
            self._send()
        else:
            self._transport.close()
            self.done.set_result(None)


def _same(caller: Caller) -> Caller:
    return caller


async def _call(port: int, callers: int, seconds: float) -> list[float]:
    loop = asyncio.get_running_loop()
    took: list[float] = []
    end = time.perf_counter() + seconds
    made = [Caller(end, took) for _ in range(callers)]
    for caller in made:
        await loop.create_connection(partial(_same, caller), "127.0.0.1", port)
    await asyncio.gather(*(caller.done for caller in made))
    return took


def over_http(server: Server, callers: int, seconds: float) -> tuple[float, float, float]:
    """Events a second, p99 in ms, and the server's CPU per event in µs."""
    process = psutil.Process(server.process.pid)
    before = sum(process.cpu_times()[:2])
    said = subprocess.run(
        [sys.executable, "-m", "bench.event_append", "call", str(server.port), str(callers), str(seconds)],
        check=True,
        timeout=seconds + 20,
        capture_output=True,
        text=True,
    ).stdout
    count, p99 = json.loads(said)
    return count / seconds, p99 * 1000, (sum(process.cpu_times()[:2]) - before) / count * 1e6


def main() -> int:
    if sys.argv[1:2] == ["call"]:
        import uvloop

        took = sorted(uvloop.run(_call(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))))
        print(json.dumps([len(took), took[int(len(took) * 0.99)]]))
        return 0
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 2
    rates: list[float] = []
    found: dict[int, list[tuple[float, float, float]]] = {callers: [] for callers in CALLERS}
    with folder() as place:
        server = Server(place / "data")
        over_http(server, 1, 0.5)
        for number in range(rounds):
            rates.append(bare(place / f"bare-{number}.db", seconds / 2))
            for callers in CALLERS:
                found[callers].append(over_http(server, callers, seconds))
        server.stop()
    base = statistics.median(rates)
    print(f"bare {base:,.0f}/s   ({' '.join(f'{rate:,.0f}' for rate in rates)})")
    for callers, each in found.items():
        rate, p99, cpu = (statistics.median(column) for column in zip(*each, strict=True))
        line = f"{callers:3} callers {rate:8,.0f}/s  {rate / base:5.2f}x bare"
        print(f"{line}  p99 {p99:6.1f} ms  CPU {cpu:4.0f} us")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

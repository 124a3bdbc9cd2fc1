"""Many live idempotency keys: what each costs in memory, the longest pause they cause, a restart with them.

`python -m bench.keys PORT COUNT` is the producer, in a process of its own: batches of 500 messages with keys
that nobody has used, over eight connections, while another connection asks for the server's health again and
again. Prints messages a second and the longest wait of a health check in milliseconds.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
import urllib.request
from array import array
from itertools import count

import psutil
import uvloop

from bench.harness.figure import Figure, at_least, at_most, below
from bench.machine import Server, folder
from driftq.core.keys import KeyTable

KEYS = int(os.environ.get("BENCH_KEYS", "10000000"))
BATCH = 500
CONNECTIONS = 8
VALUE = "x" * 100
DAY_MS = 86_400_000


def keys() -> list[Figure]:
    """The table alone, then a server that holds as many."""
    return [*_table(), *_served()]


def _table() -> list[Figure]:
    """Memory and pauses of the table itself: what a loop would wait for while one batch is claimed."""
    table = KeyTable(ttl_ms=DAY_MS)
    before = psutil.Process().memory_info().rss
    took: list[float] = []
    for first in range(0, KEYS, BATCH):
        prints = array("Q", os.urandom(8 * BATCH))
        at = time.thread_time()  # Whatever else runs on this machine is not the table's doing.
        table.add_all(prints, range(first, first + BATCH), topic=1, at=first // 1_000)
        took.append((time.thread_time() - at) * 1000)
    each = (psutil.Process().memory_info().rss - before) / KEYS
    longest = max(took)
    return [
        Figure(f"memory per live key ({KEYS:,} keys)", each, "B", below(60)),
        Figure(f"longest pause to claim {BATCH} keys meanwhile", longest, "ms", at_most(20)),
    ]


def _served() -> list[Figure]:
    with folder() as data:
        running = Server(data)
        body = json.dumps({"name": "keyed"}).encode()
        address = f"http://127.0.0.1:{running.port}/v1/topics"
        urllib.request.urlopen(urllib.request.Request(address, body, method="POST")).close()
        ran = subprocess.run(
            [sys.executable, "-m", "bench.keys", str(running.port), str(KEYS)],
            capture_output=True,
            check=True,
            text=True,
        )
        rate, longest_ms = map(float, ran.stdout.split())
        running.process.kill()
        running.process.wait()
        began = time.perf_counter()
        again = Server(data)
        urllib.request.urlopen(f"http://127.0.0.1:{again.port}/v1/readyz").close()
        restart = time.perf_counter() - began
        again.stop()
    return [
        Figure(f"durable batch produce with keys, {BATCH} a request", rate, "messages/s", at_least(100000)),
        Figure("longest wait of a health check meanwhile", longest_ms, "ms"),
        Figure(f"process start to readyz after kill -9 ({KEYS:,} keys)", restart, "s", at_most(4)),
    ]


async def _produce(port: int, total: int) -> None:
    numbers = count()
    began = time.perf_counter()
    asking = asyncio.create_task(_ask_for_health(port))
    await asyncio.gather(*[_send(port, numbers, total // BATCH) for _ in range(CONNECTIONS)])
    took = time.perf_counter() - began
    asking.cancel()
    print(total / took, await asking)


async def _send(port: int, numbers: "count[int]", batches: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    envelope = {"idempotency_key": f"{os.getpid()}-%012d"}
    message = json.dumps({"topic": "keyed", "value": VALUE, "envelope": envelope})
    template = json.dumps({"messages": ["MESSAGE"]}).replace('"MESSAGE"', ",".join([message] * BATCH))
    while (number := next(numbers)) < batches:
        body = (template % tuple(range(number * BATCH, (number + 1) * BATCH))).encode()
        head = f"POST /v1/produce/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await _answer(reader)
    writer.close()


async def _ask_for_health(port: int) -> float:
    """The longest wait for an answer, in milliseconds, until this is cancelled."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    longest = 0.0
    try:
        while True:
            at = time.perf_counter()
            writer.write(b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await _answer(reader)
            longest = max(longest, time.perf_counter() - at)
            await asyncio.sleep(0.002)
    except asyncio.CancelledError:
        return longest * 1000


async def _answer(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    field = head.lower().index(b"content-length:")
    await reader.readexactly(int(head[field + 15 : head.index(b"\r\n", field)]))


if __name__ == "__main__":
    uvloop.run(_produce(int(sys.argv[1]), int(sys.argv[2])))

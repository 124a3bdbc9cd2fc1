"""The Python client: what one process can produce and consume, and what one call costs beside plain HTTP."""

import asyncio
import http.client
import json
import time
from dataclasses import dataclass

import psutil
import uvloop

import driftq
from bench.harness.figure import Figure, at_least, below
from bench.machine import Server, server, settled

SECONDS = 5.0
VALUE = "x" * 200
CALLERS = 4_000
CALLS = 1_000


def _url(running: Server) -> str:
    return f"http://127.0.0.1:{running.port}"


@dataclass(frozen=True, slots=True)
class Phase:
    """What one half of the run came to."""

    messages: int
    seconds: float
    client_s: float
    server_s: float
    """Processor time of the two processes: the larger is the limit, where each has a core."""

    @property
    def rate(self) -> float:
        return self.messages / self.seconds

    def figures(self, name: str) -> list[Figure]:
        client, server = (took * 1e6 / self.messages for took in (self.client_s, self.server_s))
        return [
            Figure(name, self.rate, "messages/s", at_least(100_000), cpu_us=server),
            Figure(f"{name}: processor time of the client", client, "µs"),
        ]


class Stopwatch:
    """Reads the clocks of both processes."""

    def __init__(self, running: Server) -> None:
        self._server = psutil.Process(running.process.pid)
        self._began = self._read()

    def _read(self) -> tuple[float, float, float]:
        server = self._server.cpu_times()
        return time.perf_counter(), time.process_time(), server.user + server.system

    def lap(self, messages: int) -> Phase:
        """What was done since the last lap."""
        ended = self._read()
        seconds, client_s, server_s = (now - then for now, then in zip(ended, self._began, strict=True))
        self._began = ended
        return Phase(messages, seconds, client_s, server_s)


def throughput() -> list[Figure]:
    """Durable produces by many callers at once, then everything consumed and acked; one process, one loop."""
    with settled(), server() as running:
        produced, consumed = uvloop.run(_throughput(running))
    return [
        *produced.figures(f"async client: durable produce, keyed, {CALLERS:,} callers"),
        *consumed.figures("async client: consume and ack"),
    ]


async def _throughput(running: Server) -> tuple[Phase, Phase]:
    async with driftq.AsyncClient(_url(running)) as client:
        await client.create_topic("load")
        watch = Stopwatch(running)
        until = time.perf_counter() + SECONDS
        count = 0

        async def produce() -> None:
            nonlocal count
            while time.perf_counter() < until:
                await client.produce("load", VALUE)
                count += 1

        await asyncio.gather(*[produce() for _ in range(CALLERS)])
        produced = watch.lap(count)
        seen = 0
        async with client.consume("load", "bench", prefetch=10_000) as deliveries:
            async for delivery in deliveries:
                await delivery.ack_later()
                seen += 1
                if seen == count:
                    break
        return produced, watch.lap(seen)


def calls() -> list[Figure]:
    """One produce after the other: the client's two faces beside http.client, in turns on one server."""
    with server() as running, driftq.Client(_url(running)) as client:
        client.create_topic("calls")
        raw: list[float] = []
        faces: list[float] = []
        awaited: list[float] = []
        for _ in range(3):
            raw.append(_raw_calls(running.port))
            faces.append(_calls(client))
            awaited.append(uvloop.run(_awaited_calls(_url(running))))
    base = min(raw)
    return [
        Figure("one produce by http.client", base * 1000000.0, "µs"),
        _beside("one produce by driftq.Client", min(faces), base),
        _beside("one produce by driftq.AsyncClient", min(awaited), base),
    ]


def _beside(name: str, seconds: float, base: float) -> Figure:
    ratio = seconds / base
    return Figure(name, seconds * 1e6, "µs", ratio_to="http.client", ratio=ratio, ratio_aim=below(1.5))


def _raw_calls(port: int) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    began = time.perf_counter()
    for number in range(CALLS):
        message = {"topic": "calls", "value": VALUE, "envelope": {"idempotency_key": f"{began}-{number}"}}
        body = json.dumps(message).encode()
        connection.request("POST", "/v1/produce", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        json.loads(answer.read())
        assert answer.status == 200
    took = time.perf_counter() - began
    connection.close()
    return took / CALLS


def _calls(client: driftq.Client) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        client.produce("calls", VALUE)
    return (time.perf_counter() - began) / CALLS


async def _awaited_calls(url: str) -> float:
    async with driftq.AsyncClient(url) as client:
        await client.topics()
        began = time.perf_counter()
        for _ in range(CALLS):
            await client.produce("calls", VALUE)
        return (time.perf_counter() - began) / CALLS

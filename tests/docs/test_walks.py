"""The walks on the page are the walks that a request takes: a profiler follows one through a real server."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import driftq
from driftq.http.wire.edge import HttpOptions
from driftq.http.wire.server import HttpServer
from driftq.log.disk import OsFolder
from scripts.reference.walks_page import files
from tests.support.direct import DirectClient, start

MESSAGE, JOB = 0, 1
SOURCE = f"{Path(driftq.__file__).parent}/"
BYSTANDERS = (
    *("core/decide/retention.py", "core/decide/skip.py", "http/wire/edge.py", "server/maintenance/"),
    "log/handles.py",  # A thread fills the next segment with zeros.
    *("server/histograms.py", "server/jobs/measures.py"),  # They only measure.
)
"""They work by the clock, for nobody's request; the trace may fall on their second."""


class Tracer:
    """Notes which functions of DriftQ run, on every thread that starts while it is installed."""

    def __init__(self) -> None:
        self.calls: set[tuple[str, str]] | None = None

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if self.calls is not None and event == "call" and code.co_filename.startswith(SOURCE):
            self.calls.add((code.co_filename.removeprefix(SOURCE), code.co_name))

    async def during(self, act: Callable[[], Awaitable[object]]) -> set[tuple[str, str]]:
        self.calls = set()
        await act()
        found, self.calls = self.calls, None
        return found


class Connection:
    """One keep-alive connection of a client that does not wait for more than it asked."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, method: str, path: str, body: object = None) -> Any:
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(text)}\r\n\r\n"
        self.writer.write(head.encode() + text)
        answer = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert " 20" in answer.splitlines()[0], answer
        length = int(answer.partition("content-length: ")[2].partition("\r\n")[0] or 0)
        return json.loads(await self.reader.readexactly(length)) if length else None


@pytest.fixture
def tracer() -> Any:
    tracer = Tracer()
    before = sys.getprofile()
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    yield tracer
    sys.setprofile(before)
    threading.setprofile(None)


@asynccontextmanager
async def serving(tmp_path: Path) -> AsyncIterator[tuple[DirectClient, Callable[[], Awaitable[Connection]]]]:
    client = start(OsFolder(str(tmp_path)))
    server = HttpServer()
    await server.start(client.broker, "127.0.0.1", 0, HttpOptions())

    opened: list[Connection] = []

    async def connect() -> Connection:
        opened.append(Connection(*await asyncio.open_connection("127.0.0.1", server.port)))
        return opened[-1]

    try:
        yield client, connect
    finally:
        await server.stop()
        for connection in opened:
            connection.writer.close()


async def walked(tracer: Tracer, client: DirectClient, act: Callable[[], Awaitable[object]]) -> set[str]:
    """The files in which a function runs for the request, and not in a turn without one."""

    async def idle() -> None:
        client.engine.want_turn()
        await client.view("t")

    await act()
    await act()
    nothing = await tracer.during(idle)
    found = await tracer.during(act)
    return {path for path, _ in found - nothing if not path.startswith(BYSTANDERS)}


def compare(found: set[str], walk: int, *, at_most: int) -> None:
    told = set(files(walk))
    assert found - told == set(), "the page leaves these out"
    assert told - found == set(), "nothing runs here"
    assert len(told) <= at_most


async def test_a_message_passes_the_files_that_the_page_names(tracer: Tracer, tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, connect):
        await client.create("t")
        producer, consumer = await connect(), await connect()
        consumer.writer.write(
            b"GET /v1/consume?topic=t&group=g&owner=o&lease_ms=60000 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        )
        await consumer.reader.readuntil(b"\r\n\r\n")

        async def act() -> None:
            await producer.ask("POST", "/v1/produce", {"topic": "t", "key": "k", "value": "v"})
            await consumer.reader.readuntil(b"\r\n")
            line = json.loads(await consumer.reader.readuntil(b"\n"))
            await consumer.reader.readuntil(b"\r\n")
            place = {"partition": line["partition"], "offset": line["offset"]}
            await producer.ask("POST", "/v1/ack", {"topic": "t", "group": "g", "owner": "o", **place})

        compare(await walked(tracer, client, act), MESSAGE, at_most=30)


async def test_a_job_passes_the_files_that_the_page_names(tracer: Tracer, tmp_path: Path) -> None:
    async with serving(tmp_path) as (client, connect):
        await client.create("t")
        connection = await connect()

        async def act() -> None:
            await connection.ask("POST", "/v1/jobs", {"queue": "q", "task": "t", "payload": {}})
            claim = {"queues": ["q"], "owner": "o", "lease_ms": 60_000, "max": 1}
            (job,) = (await connection.ask("POST", "/v1/jobs/claim", claim))["jobs"]
            await connection.ask("POST", f"/v1/jobs/{job['job_id']}/complete", {"token": job["token"]})

        compare(await walked(tracer, client, act), JOB, at_most=23)

"""Clients that drip their requests shut nobody out. Sockets are real; seconds pass when the test says so."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from driftq.http.wire.connection import ServerConnection
from driftq.http.wire.edge import Edge, HttpOptions
from driftq.log.memory import MemoryFolder
from driftq.server.broker import BrokerOptions, open_broker

HEALTH = b"GET /v1/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Client:
    """One connection to the server."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, served: ServerConnection
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.served = served
        """The server's side of it."""

    async def begin(self, octets: bytes) -> None:
        """Send a part of a request; the server has read it then."""
        self.writer.write(octets)
        await until(lambda: self.served._reader.received_bytes == len(octets))

    async def go_on(self, octets: bytes) -> None:
        """Send a further part; the server has read it then."""
        before = self.served._reader.received_bytes
        self.writer.write(octets)
        await until(lambda: self.served._reader.received_bytes == before + len(octets))

    async def wait_for_work(self) -> None:
        """Ask for a job where there is none: the answer is owed for as long as the test lasts."""
        self.writer.write(
            post("/v1/jobs/claim", b'{"queues":["q"],"owner":"o","lease_ms":60000,"max":1,"wait_ms":60000}')
        )
        await until(lambda: bool(self.served._line))

    async def answer(self) -> tuple[int, Any]:
        """Status and JSON of the next answer."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        (length,) = [line[16:] for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")]
        return int(head[9:12]), json.loads(await self.reader.readexactly(int(length)))

    async def is_closed(self) -> bool:
        try:
            return await self.reader.read() == b""
        except ConnectionError:
            return True


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - it is the socket's doing, and the socket sets no event.
            await asyncio.sleep(0.001)


class Serving:
    def __init__(self, edge: Edge, port: int) -> None:
        self.edge = edge
        self.port = port
        self._clients: list[Client] = []

    async def connect(self) -> Client:
        known = set(self.edge.connections)
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        await until(lambda: bool(set(self.edge.connections) - known))
        (served,) = set(self.edge.connections) - known
        client = Client(reader, writer, served)
        self._clients.append(client)
        return client

    async def ask(self, client: Client, request: bytes = HEALTH) -> tuple[int, Any]:
        client.writer.write(request)
        return await client.answer()

    def seconds_pass(self, count: int) -> None:
        for _ in range(count):
            self.edge.second()

    def close(self) -> None:
        for client in self._clients:
            client.writer.close()


@contextlib.asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Serving]:
    """A server whose clock stands still."""
    broker = open_broker(MemoryFolder(), BrokerOptions(durable=False), on_fatal=lambda error: None)
    edge = Edge(broker, HttpOptions(**options))
    server = await asyncio.get_running_loop().create_server(lambda: ServerConnection(edge), "127.0.0.1", 0)
    running = Serving(edge, server.sockets[0].getsockname()[1])
    try:
        yield running
    finally:
        server.close()
        running.close()
        await edge.finish_tasks(within_s=1)
        await broker.close()
        for stream in list(edge.streams):
            stream.end()
        for connection in list(edge.connections):
            connection.abort()
        await until(lambda: not edge.connections)


def post(path: str, body: bytes, *, length: int | None = None, more: str = "") -> bytes:
    size = len(body) if length is None else length
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n{more}\r\n"
    return head.encode() + body


@pytest.mark.clause("H4")
async def test_dripping_clients_shut_nobody_out() -> None:
    """As many as there are places, a byte every four seconds: a newcomer is served at once."""
    async with serving(connections_max=8) as server:
        drips = [await server.connect() for _ in range(8)]
        for drip in drips:
            await drip.begin(HEALTH[:1])
        server.seconds_pass(4)
        for drip in drips:
            await drip.go_on(HEALTH[1:2])
        newcomer = await server.connect()
        assert await server.ask(newcomer) == (200, {"status": "ok"})
        status, error = await drips[0].answer()
        assert (status, error["error"]) == (408, "REQUEST_TIMEOUT")
        assert "slowest" in error["message"]
        server.seconds_pass(7)
        for drip in drips[1:]:
            status, error = await drip.answer()
            assert (status, error["message"]) == (408, "the request's head did not come within 10 s")
        assert await server.ask(newcomer) == (200, {"status": "ok"})


@pytest.mark.clause("H4")
async def test_a_body_that_drips_is_given_up_and_nothing_of_it_is_done() -> None:
    async with serving() as server:
        client = await server.connect()
        await client.begin(post("/v1/topics", b'{"name":', length=15))
        server.seconds_pass(10)
        assert client.served.awaits_request
        server.seconds_pass(1)
        status, error = await client.answer()
        assert (status, error["kind"]) == (408, "RequestTimeout")
        assert error["message"] == "the request's body came slower than 1024 bytes per second over 10 s"
        assert await client.is_closed()
        other = await server.connect()
        topics = await server.ask(other, b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert topics == (200, {"topics": []})


@pytest.mark.clause("H4")
async def test_only_those_who_are_waited_for_are_hurried() -> None:
    """A stream, a long poll and a connection without a request are as they were a minute later."""
    async with serving() as server:
        stream, poll, idle = [await server.connect() for _ in range(3)]
        topic = post("/v1/topics", b'{"name":"t"}')
        assert (await server.ask(idle, topic))[0] == 201
        stream.writer.write(
            b"GET /v1/consume?topic=t&group=g&owner=o HTTP/1.1\r\nHost: localhost\r\n\r\nGET /v1"
        )
        assert b"200 OK" in await stream.reader.readuntil(b"\r\n\r\n")
        await poll.wait_for_work()
        server.seconds_pass(60)
        assert (await server.ask(idle, post("/v1/produce", b'{"topic":"t","value":"v"}')))[0] == 200
        assert b'"value":"v"' in await stream.reader.readuntil(b"\n\r\n")
        job = post("/v1/jobs", b'{"queue":"q","task":"t","payload":1}')
        assert (await server.ask(idle, job))[0] == 201
        assert (await poll.answer())[0] == 200


@pytest.mark.clause("H4")
async def test_a_client_that_waits_for_a_word_is_not_too_slow() -> None:
    """It may send its body only after 100 Continue, and that comes behind an answer that is still owed."""
    async with serving() as server:
        client = await server.connect()
        await client.wait_for_work()
        client.writer.write(post("/v1/topics", b"", length=12, more="Expect: 100-continue\r\n"))
        await until(lambda: client.served._reader.within)
        server.seconds_pass(60)
        other = await server.connect()
        job = post("/v1/jobs", b'{"queue":"q","task":"t","payload":1}')
        assert (await server.ask(other, job))[0] == 201
        assert (await client.answer())[0] == 200
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.writer.write(b'{"name":"t"}')
        assert (await client.answer())[0] == 201


@pytest.mark.clause("H4")
async def test_empty_lines_keep_no_connection_open() -> None:
    """Before a request they mean nothing, so they are no sign of life."""
    async with serving() as server:
        client = await server.connect()
        for _ in range(46):
            client.writer.write(b"\r\n")
            server.seconds_pass(2)
        assert await client.is_closed()


@pytest.mark.clause("H4")
async def test_the_connection_that_is_idle_longest_goes_first() -> None:
    """Before any request that is under way; who has an answer coming, or a stream, never."""
    async with serving(connections_max=4) as server:
        busy, oldest, slow, recent = [await server.connect() for _ in range(4)]
        assert (await server.ask(oldest))[0] == 200
        await busy.wait_for_work()
        server.seconds_pass(1)
        assert (await server.ask(recent))[0] == 200
        await slow.begin(HEALTH[:5])
        for goes in (oldest, recent):
            newcomer = await server.connect()
            await newcomer.wait_for_work()
            assert await goes.is_closed()
        last = await server.connect()
        await last.wait_for_work()
        assert (await slow.answer())[0] == 408
        assert (await (await server.connect()).answer())[0] == 503
        assert not busy.served._gone


@pytest.mark.clause("H4")
async def test_a_fast_upload_outlives_the_slow_ones() -> None:
    async with serving(connections_max=2) as server:
        upload, drip = await server.connect(), await server.connect()
        await upload.begin(post("/v1/produce/batch", b"x" * 50_000, length=200_000))
        await drip.begin(HEALTH[:20])
        server.seconds_pass(1)
        newcomer = await server.connect()
        assert (await server.ask(newcomer))[0] == 200
        assert (await drip.answer())[0] == 408
        assert upload.served.awaits_request


@pytest.mark.clause("H4")
async def test_a_flood_of_newcomers_is_cut_off_and_then_over() -> None:
    async with serving(connections_max=4) as server:
        held = [await server.connect() for _ in range(4)]
        for client in held:
            await client.wait_for_work()
        refused = [await server.connect() for _ in range(4)]
        for client in refused:
            assert (await client.answer())[0] == 503
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        for client in (*refused, held[0]):
            client.writer.close()
        await until(lambda: len(server.edge.connections) == 3)
        assert (await server.ask(await server.connect()))[0] == 200

"""The broker in this process: the same calls, and the same promises, without a server."""

import asyncio
from pathlib import Path

import pytest

import driftq
import driftq.model
from driftq.embedded.pipe import join
from driftq.storage.address import read_address, write_address
from tests.harness import ServerProcess


@pytest.mark.clause("P1", "W2")
def test_what_was_confirmed_is_there_when_the_folder_is_opened_again(tmp_path: Path) -> None:
    with driftq.open(tmp_path / "data") as broker:
        broker.create_topic("orders", partitions=3)
        assert broker.produce("orders", {"id": 1}, key="user:1", idempotency_key="order-1").partition == 1
        with broker.consume("orders", "billing") as deliveries:
            next(deliveries).ack()
        broker.produce("orders", {"id": 2}, key="user:1")
    with driftq.open(tmp_path / "data") as broker:
        assert broker.topics() == ["orders"]
        assert broker.produce("orders", {"id": 1}, key="user:1", idempotency_key="order-1").duplicate
        with broker.consume("orders", "billing") as deliveries:
            (left,) = deliveries.take(1, within_s=60)
            assert deliveries.take(1, within_s=0.3) == []
            assert left.json() == {"id": 2}


@pytest.mark.clause("E4")
def test_labels_are_accepted_in_process_and_delivered(tmp_path: Path) -> None:
    facts = driftq.model.DeadLetterFacts("orders", 0, 1, "g", 3, "no milk", "max_attempts", "now")
    with driftq.open(tmp_path / "data") as broker:
        broker.create_topic("orders")
        broker.produce("orders", "v", labels={"team": "a"}, dlq=facts)
        with broker.consume("orders", "g") as deliveries:
            delivery = next(deliveries)
    assert delivery.envelope.labels == {"team": "a"}
    assert delivery.envelope.dlq == facts


@pytest.mark.clause("H2")
def test_errors_are_the_same(tmp_path: Path) -> None:
    with driftq.open(tmp_path / "data") as broker:
        with pytest.raises(driftq.TopicNotFound):
            broker.produce("nowhere", "v")
        broker.create_topic("orders")
        with pytest.raises(driftq.InvalidArgument, match="unheard"):
            broker.produce("orders", "v", unheard="of")  # type: ignore[call-arg]


@pytest.mark.clause("W6")
def test_a_folder_that_a_server_holds_is_asked_there(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        server.client().post("/v1/topics", {"name": "orders"})
        assert read_address(server.data) == f"http://127.0.0.1:{server.port}"
        with driftq.open(server.data) as broker:
            broker.produce("orders", "v")
            assert broker.url == f"http://127.0.0.1:{server.port}"
        assert server.client().get("/v1/topics/orders").body["partitions"][0]["messages"] == 1
        server.terminate()
    assert read_address(server.data) is None
    with driftq.open(server.data) as broker:
        assert [one.value for one in broker.records("orders")] == ["v"]


@pytest.mark.clause("W6")
def test_a_folder_that_another_embedded_broker_holds_is_refused(tmp_path: Path) -> None:
    write_address(tmp_path, "http://127.0.0.1:9")
    with driftq.open(tmp_path) as _, pytest.raises(driftq.LogLocked):
        driftq.open(tmp_path)


@pytest.mark.clause("R1")
def test_a_router_is_a_function_of_the_program(tmp_path: Path) -> None:
    def by_size(_: str, message: driftq.Message) -> driftq.RoutingDecision:
        return driftq.RoutingDecision(label="large" if len(message.value) > 10 else "small")

    with driftq.open(tmp_path, router=by_size, fsync="off") as broker:
        broker.create_topic("orders")
        broker.produce_many("orders", ["x", "x" * 20])
        labels = [one.routing.label for one in broker.records("orders") if one.routing]
    assert labels == ["small", "large"]


async def test_the_awaited_face_runs_on_the_callers_loop(tmp_path: Path) -> None:
    async with await driftq.open_async(tmp_path) as broker:
        await broker.create_topic("orders")
        await asyncio.gather(*[broker.produce("orders", "x" * 1000) for _ in range(2000)])
        seen = 0
        async with broker.consume("orders", "g", prefetch=5000) as deliveries:
            async for delivery in deliveries:
                await delivery.ack_later()
                seen += 1
                if seen == 2000:
                    break
        assert sum(group.lag for group in (await broker.topic("orders")).groups) == 0


class Recorder(asyncio.Protocol):
    """Keeps what happens to it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.received = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def pause_writing(self) -> None:
        self.events.append("paused")

    def resume_writing(self) -> None:
        self.events.append("resumed")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost")


async def test_a_pipe_holds_a_writer_back_whose_reader_is_slow_and_delivers_before_it_closes() -> None:
    writer, reader = Recorder(), Recorder()
    join(writer, reader)
    reader.transport.pause_reading()
    writer.transport.write(b"x" * 300_000)
    await asyncio.sleep(0)
    assert (writer.events, reader.received) == (["paused"], b"")
    reader.transport.resume_reading()
    for _ in range(3):
        await asyncio.sleep(0)
    assert (writer.events, len(reader.received)) == (["paused", "resumed"], 300_000)
    writer.transport.write(b"end")
    writer.transport.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert reader.received.endswith(b"end")
    assert (writer.events[-1], reader.events) == ("lost", ["lost"])

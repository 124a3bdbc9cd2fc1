"""The way of a flow to DriftQ: produces and acks over kept connections, deliveries from streams."""

import itertools
import json
import re

from bench.harness.flow import Flow
from bench.harness.lean import Lines, Pool, connect, http_post, is_http_whole

GROUP = "bench"
_DELIVERY = re.compile(rb'\{"partition":(\d+),"offset":(\d+),')
_BODIES = 64


class DriftqPort:
    """Produces and acks of a flow with a server of ours; single ones when the batch is 1."""

    def __init__(self, port: int, topic: str, value: str) -> None:
        self._port = port
        self._topic = topic
        self._value = value

    async def open(self, flow: Flow) -> None:
        shape = flow.shape
        count = min(shape.connections, shape.window // shape.batch)
        self._produces = await Pool(is_http_whole).open(self._port, count)
        self._bodies = itertools.cycle([self._body(shape.batch, place) for place in range(_BODIES)])
        self._acks = await Pool(is_http_whole).open(self._port, count)
        owners = [f"owner-{number}" for number in range(shape.streams)]
        self._streams = [_Stream(self._topic, owner, flow, self._acks) for owner in owners]
        for stream in self._streams:
            await stream.open(self._port)

    def _body(self, batch: int, place: int) -> bytes:
        keys = (f"user:{place * batch + number:012d}" for number in range(batch))
        messages = [{"topic": self._topic, "key": key, "value": self._value} for key in keys]
        if batch == 1:
            return http_post("/v1/produce", json.dumps(messages[0]).encode())
        return http_post("/v1/produce/batch", json.dumps({"messages": messages}).encode())

    def produce(self) -> None:
        self._produces.send(next(self._bodies), _ignore)

    def close(self) -> None:
        self._produces.close()
        self._acks.close()
        for stream in self._streams:
            stream.close()


class _Stream:
    """One consumer."""

    def __init__(self, topic: str, owner: str, flow: Flow, acks: Pool) -> None:
        self._names = (topic.encode(), GROUP.encode(), owner.encode())
        self._flow = flow
        shape = flow.shape
        self._prefetch = shape.window // shape.streams
        self._acks = acks
        self._unacked = flow.gather(shape.ack_size, self._send)

    async def open(self, port: int) -> None:
        self._lines = await connect(port, lambda: Lines(self._delivered))
        topic, group, owner = (name.decode() for name in self._names)
        query = f"topic={topic}&group={group}&owner={owner}&prefetch={self._prefetch}&lease_ms=600000"
        self._lines.transport.write(f"GET /v1/consume?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def _delivered(self, lines: bytes) -> None:
        self._unacked.add(_DELIVERY.findall(lines))

    def _send(self, some: list[tuple[bytes, bytes]]) -> None:
        self._acks.send(self._request(some), self._acked)

    def _request(self, some: list[tuple[bytes, bytes]]) -> bytes:
        if self._flow.shape.batch == 1:
            ((partition, offset),) = some
            text = b'{"topic":"%s","group":"%s","owner":"%s","partition":%s,"offset":%s}'
            return http_post("/v1/ack", text % (*self._names, partition, offset))
        parts = b",".join([b'{"partition":%s,"offset":%s}' % one for one in some])
        text = b'{"topic":"%s","group":"%s","owner":"%s","acks":[%s]}'
        return http_post("/v1/ack/batch", text % (*self._names, parts))

    def _acked(self, answer: bytes) -> None:
        if b'"error"' in answer:
            raise RuntimeError(answer.decode())
        self._flow.acked(1 if self._flow.shape.batch == 1 else answer.count(b'"acked"'))

    def close(self) -> None:
        self._lines.transport.close()


def _ignore(_answer: bytes) -> None:
    """The answer to a produce."""

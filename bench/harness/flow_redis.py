"""The way of a flow to Redis: `XADD`, one reader with `XREADGROUP`, `XACK`; a stream for each partition."""

import re
from functools import partial
from itertools import cycle, pairwise

from bench.harness.flow import Flow
from bench.harness.lean import Connection, Pool, connect, ends_with_pong, has_line_ends, resp

GROUP = "bench"
_ID = re.compile(rb"\r\n(\d{10,}-\d+)\r\n")
_BODIES = 64


class RedisPort:
    """Adds and acks of a flow with Redis: a pipeline where the batch is more than 1."""

    def __init__(self, port: int, stream: str, value: str) -> None:
        self._port = port
        self._stream = stream
        self._value = value

    async def open(self, flow: Flow) -> None:
        self._flow = flow
        shape = flow.shape
        self._names = [f"{self._stream}-{number}".encode() for number in range(shape.partitions)]
        self._unacked = {name: flow.gather(shape.ack_size, partial(self._ack, name)) for name in self._names}
        count = min(shape.connections, shape.window // shape.batch)
        self._adds = await Pool(has_line_ends(2 * shape.batch)).open(self._port, count)
        self._acks = await Pool(has_line_ends(1)).open(self._port, count)
        self._bodies = cycle([self._body(shape.batch, place) for place in range(_BODIES)])
        reads = min(shape.window, max(shape.batch, shape.connections))
        words = ("XREADGROUP", "GROUP", GROUP, "reader", "COUNT", str(reads), "BLOCK", "1000", "STREAMS")
        self._read = resp(*words, *self._names, *([">"] * shape.partitions)) + resp("PING")
        self._open = True
        self._reader = await connect(self._port, lambda: Connection(ends_with_pong, self._delivered))
        for name in self._names:
            self._reader.send(resp("XGROUP", "CREATE", name, GROUP, "0", "MKSTREAM"))
        self._reader.send(resp("PING"))  # A group that is there already is an error in the answer.

    def _body(self, batch: int, place: int) -> bytes:
        adds = []
        for number in range(place * batch, (place + 1) * batch):
            name = self._names[number % len(self._names)]
            adds.append(resp("XADD", name, "*", "key", f"user:{number:012d}", "value", self._value))
        return b"".join(adds)

    def produce(self) -> None:
        self._adds.send(next(self._bodies), _ignore)

    def _delivered(self, answer: bytes) -> None:
        found = (answer.find(b"\r\n%s\r\n" % name) for name in self._names)
        places = sorted(place for place in found if place >= 0)
        for place, end in pairwise([*places, len(answer)]):
            name = answer[place + 2 : answer.find(b"\r\n", place + 2)]
            self._unacked[name].add(_ID.findall(answer, place, end))
        if self._open:
            self._reader.send(self._read)

    def _ack(self, name: bytes, ids: list[bytes]) -> None:
        self._acks.send(resp("XACK", name, GROUP, *ids), self._acked)

    def _acked(self, answer: bytes) -> None:
        self._flow.acked(int(answer[1:-2]))

    def close(self) -> None:
        self._open = False
        for pool in (self._adds, self._acks):
            pool.close()
        self._reader.transport.close()


def _ignore(_answer: bytes) -> None:
    """The answer to an add."""

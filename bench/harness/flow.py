"""Messages from produce to ack, with so many under way: the same loop for every server.

A `Port` sends; the flow keeps the books. It produces while fewer than `window` messages are unacked, hands
what is delivered to the port to ack, and ends when the time is up and every message is acked.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import uvloop

from bench.harness.rounds import Sample
from bench.machine import Measured, settled

_DRAINED_WITHIN_S = 20.0
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Shape:
    """How the messages travel."""

    batch: int
    """Of one produce."""
    window: int
    """Messages that are produced and not acked."""
    partitions: int
    streams: int = 1
    ack: int = 0
    """Of one ack; as many as in a produce where it is 0."""
    connections: int = 64
    """At most, for produces, and as many for acks."""

    @property
    def ack_size(self) -> int:
        """Messages of one ack: no more than a quarter of what a stream may hold."""
        return max(1, min(self.ack or self.batch, self.window // self.streams // 4))


class Port(Protocol):
    """The way to one server."""

    async def open(self, flow: "Flow") -> None:
        """Connect, and call `flow.acked` for each answer to an ack from now on."""
        ...

    def produce(self) -> None:
        """Send one batch; the answer needs no word."""
        ...

    def close(self) -> None: ...


class Gather(Generic[Item]):
    """Collects what is to be acked until it is enough for one ack, or the flow ends."""

    def __init__(self, flow: "Flow", size: int, send: Callable[[list[Item]], None]) -> None:
        self._flow = flow
        self._size = size
        self._send = send
        self._items: list[Item] = []

    def add(self, items: list[Item]) -> None:
        self._items += items
        while len(self._items) >= self._size or (self._items and self._flow.is_ending):
            some, self._items = self._items[: self._size], self._items[self._size :]
            self._send(some)


class Flow:
    """One run."""

    def __init__(self, shape: Shape, seconds: float) -> None:
        self.shape = shape
        self._seconds = seconds
        self._unacked = 0
        self._done = 0
        self._gathers: list[Gather[Any]] = []
        self.is_ending = False
        """Nothing is produced any more."""

    async def run(self, port: Port) -> tuple[int, float]:
        """Messages that were acked, and the seconds. Raises what a connection's callback raised."""
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = loop.create_future()
        loop.set_exception_handler(lambda _, context: self._fail(context))
        await port.open(self)
        self._port = port
        began = time.perf_counter()
        self._until = began + self._seconds
        self._fill()
        limit_s = self._seconds + _DRAINED_WITHIN_S
        await asyncio.wait({self._ended}, timeout=limit_s)
        if not self._ended.done():
            raise TimeoutError(f"{self._unacked} messages are not acked after {limit_s:.0f} s")
        self._ended.result()
        took = time.perf_counter() - began
        port.close()
        return self._done, took

    def _fill(self) -> None:
        shape = self.shape
        while self._unacked + shape.batch <= shape.window:
            self._unacked += shape.batch
            self._port.produce()

    def gather(self, size: int, send: Callable[[list[Item]], None]) -> Gather[Item]:
        made = Gather(self, size, send)
        self._gathers.append(made)
        return made

    def acked(self, count: int) -> None:
        self._unacked -= count
        self._done += count
        if time.perf_counter() < self._until:
            self._fill()
        else:
            self._end()

    def _end(self) -> None:
        if not self.is_ending:
            self.is_ending = True
            for gather in self._gathers:
                gather.add([])
        if not self._unacked and not self._ended.done():
            self._ended.set_result(None)

    def _fail(self, context: dict[str, Any]) -> None:
        if not self._ended.done():
            self._ended.set_exception(context.get("exception") or RuntimeError(context["message"]))


def run_flow(port: Port, shape: Shape, seconds: float, server: Measured) -> Sample:
    """One run as a sample: messages per second, and the server's processor time for each."""

    async def run() -> tuple[int, float]:
        return await Flow(shape, seconds).run(port)

    with settled(), server.running():
        before = server.spent_s()
        count, took = uvloop.run(run())
        spent = server.spent_s() - before
    return Sample(count / took, spent * 1e6 / count)

"""A stream of deliveries that comes back by itself when it is cut.

Leases outlive connections and servers: what was received before a cut is still ours, so it is kept. A
delivery whose lease ended while it waited here is passed over; the server gives it to somebody again. What
came and nobody was given when the consumer closes is given back unstarted, so that it costs no try.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Self

import msgspec

from driftq.client.backoff import RetryBackoff
from driftq.client.consuming.delivery import AsyncDelivery
from driftq.client.consuming.subscription import Settling, Subscription
from driftq.client.wire.calls import Calls
from driftq.client.wire.connection import ConnectionLost, LineReader
from driftq.client.wire.errors import is_passing
from driftq.errors import DriftQError
from driftq.forking import in_forked_child
from driftq.model import DeliveryLine
from driftq.model.wire.settle import AckPart

_decode_lines = msgspec.json.Decoder(DeliveryLine).decode_lines

logger = logging.getLogger("driftq.client")


class LineSource:
    """The lines of one subscription, over as many connections as it takes. One reader at a time."""

    def __init__(self, calls: Calls, subscription: Subscription) -> None:
        self.subscription = subscription
        self._calls = calls
        self._octets = calls.writer.request("GET", "/v1/consume", query=subscription.query())
        self.settling = Settling(calls, subscription.topic, subscription.group, subscription.owner)
        self._stream: LineReader | None = None
        self._rest = b""
        self._backoff = RetryBackoff()
        self._patience_ends = time.monotonic() + calls.options.timeout_s
        """Until it has been connected once: a server that was never there is an error."""
        self._lease_s = subscription.lease_ms / 1000
        self._lines: Iterator[DeliveryLine] = iter(())
        self._leased_until = 0.0
        self._monotonic = calls.connector.monotonic
        self._closing = asyncio.Event()
        self._left = False
        self._closed = False
        self._passed_over: AckPart | None = None
        self._telling: asyncio.Task[None] | None = None
        in_forked_child(self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """What came, and what will come, is the parent's: a child that handled it too would do so twice."""
        self._calls = self._calls.left_behind("this consumer")
        self._lines = iter(())
        self._stream = None
        self._closing = asyncio.Event()
        self._passed_over = None
        self._telling = None

    def ready(self) -> DeliveryLine | None:
        """The next delivery that is here and still ours; None when `fill` has to be awaited first."""
        line = next(self._lines, None)
        if line is not None and self._monotonic() >= self._leased_until:
            passed = 1 + sum(1 for _ in self._lines)
            self._passed_over = _place(line)
            logger.warning("%d deliveries waited longer than their lease and are passed over", passed)
            return None
        return line

    async def fill(self) -> bool:
        """Wait for deliveries; False when the consumer was closed. Raises what trying again cannot mend."""
        if self._passed_over is not None:
            self._say_alive(self._passed_over)
        while not self._closing.is_set():
            try:
                piece = await self._next_piece()
            except ConnectionLost as lost:
                await self._cut(str(lost))
            except DriftQError as failure:
                if not is_passing(failure) or time.monotonic() > self._patience_ends:
                    raise
                await self._cut(failure.message)
            else:
                whole, newline, self._rest = (self._rest + piece).rpartition(b"\n")
                if newline:
                    self._lines = iter(_decode_lines(whole))
                    return True
        return False

    async def _next_piece(self) -> bytes:
        if self._stream is None:
            self._stream = await self._calls.open_stream(self._octets)
            self._backoff.succeeded()
            self._patience_ends = float("inf")
            self._rest = b""
        piece = await self._stream.pieces()
        if piece is None:
            raise ConnectionLost("the server ended the stream")
        self._leased_until = self._stream.arrived_at + self._lease_s
        return piece

    async def _cut(self, cause: str) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
            if self._closing.is_set():
                return
            logger.warning("the stream of %s was cut (%s); connecting again", self.subscription.topic, cause)
        try:
            await asyncio.wait_for(self._closing.wait(), self._backoff.next_s())
        except TimeoutError:
            pass

    def _say_alive(self, place: AckPart) -> None:
        """Without a sign of life the server holds this stream back; a nack that comes too late is one."""
        self._passed_over = None
        self._telling = asyncio.ensure_future(self.settling.give_back([place]))

    async def leave(self) -> None:
        """Close the stream and give back what came and nobody was given. Acks can still be sent.

        Leases outlive a stream, so it ends first, with all that was on its way: what is given back may not
        come here again. But where the end releases them, and counts them, they are given back before it.
        """
        if self._left:
            return
        self._left = True
        self._closing.set()
        try:
            async with asyncio.timeout(self._calls.options.close_timeout_s):
                if self._stream is not None and not self.subscription.release_on_close:
                    await self._stream.finish()
                while unhandled := self._unhandled():
                    await self.settling.give_back(unhandled)
        except TimeoutError:
            logger.warning("what %s sent could not be given back in time", self.subscription.topic)
        if self._stream is not None:
            self._stream.close()

    def _unhandled(self) -> list[AckPart]:
        """What has come and nobody was given."""
        lines = list(self._lines)
        if self._stream is not None:
            whole, newline, self._rest = (self._rest + self._stream.take()).rpartition(b"\n")
            if newline:
                lines += _decode_lines(whole)
        return list(map(_place, lines))

    async def close(self) -> None:
        """Send the acks that are owed, give back what nobody was given, then leave."""
        self._closing.set()
        if self._closed:
            return
        self._closed = True
        try:
            await asyncio.wait_for(self.settling.flush(), self._calls.options.close_timeout_s)
        except TimeoutError:
            logger.warning("acks of %s could not be sent; their messages come again", self.subscription.topic)
        await self.leave()
        if self._telling is not None:
            self._telling.cancel()
        self.settling.close()


def _place(line: DeliveryLine) -> AckPart:
    return AckPart(line.partition, line.offset, line.attempts)


class AsyncConsumer:
    """Deliveries as they come, for `async for`; ends when it is closed."""

    def __init__(self, source: LineSource, on_close: Callable[[LineSource], None]) -> None:
        self.source = source
        self._on_close = on_close

    @property
    def owner(self) -> str:
        return self.source.subscription.owner

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncDelivery:
        source = self.source
        while True:
            line = source.ready()
            if line is not None:
                return AsyncDelivery(line, source.settling, source.subscription.lease_ms)
            if not await source.fill():
                raise StopAsyncIteration

    async def take(self, count: int, *, within_s: float) -> list[AsyncDelivery]:
        """The next deliveries, at most so many, and fewer when no more come in this time."""
        taken: list[AsyncDelivery] = []
        try:
            async with asyncio.timeout(within_s):
                while len(taken) < count:
                    taken.append(await anext(self))
        except (TimeoutError, StopAsyncIteration):
            pass
        return taken

    async def leave(self) -> None:
        """Take no more, and give back what nobody was given; deliveries already given out can be settled."""
        await self.source.leave()

    async def close(self) -> None:
        """Send the acks that are owed, then leave. What was given out and not acked stays leased."""
        await self.source.close()
        self._on_close(self.source)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

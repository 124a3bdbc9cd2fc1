"""A stream of deliveries that comes back by itself when it is cut.

Leases outlive connections and servers: what was received before a cut is still ours, so it is kept. A
delivery whose lease ended while it waited here is passed over; the server gives it to somebody again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Self

import msgspec

from driftq.client.backoff import Backoff
from driftq.client.calls import Calls
from driftq.client.connection import ConnectionLost, Stream
from driftq.client.delivery import AsyncDelivery
from driftq.client.refusals import is_passing
from driftq.client.subscription import Settling, Subscription
from driftq.errors import DriftQError
from driftq.model import Delivery as DeliveryLine

_decode_lines = msgspec.json.Decoder(DeliveryLine).decode_lines

logger = logging.getLogger("driftq.client")


class LineSource:
    """The lines of one subscription, over as many connections as it takes. One reader at a time."""

    def __init__(self, calls: Calls, subscription: Subscription) -> None:
        self.subscription = subscription
        self._calls = calls
        self._octets = calls.writer.request("GET", "/v1/consume", query=subscription.query())
        self.settling = Settling(calls, subscription.topic, subscription.group, subscription.owner)
        self._stream: Stream | None = None
        self._rest = b""
        self._backoff = Backoff()
        self._patience_ends = time.monotonic() + calls.options.timeout_s
        """Until it has been connected once: a server that was never there is an error."""
        self._lease_s = subscription.lease_ms / 1000
        self._lines: Iterator[DeliveryLine] = iter(())
        self._leased_until = 0.0
        self._closing = asyncio.Event()

    def ready(self) -> DeliveryLine | None:
        """The next delivery that is here and still ours; None when `fill` has to be awaited first."""
        line = next(self._lines, None)
        if line is not None and time.monotonic() >= self._leased_until:
            passed = 1 + sum(1 for _ in self._lines)
            logger.warning("%d deliveries waited longer than their lease and are passed over", passed)
            return None
        return line

    async def fill(self) -> bool:
        """Wait for deliveries; False when the consumer was closed. Raises what trying again cannot mend."""
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

    async def close(self) -> None:
        """Send the acks that are owed, then leave."""
        if self._closing.is_set():
            return
        self._closing.set()
        try:
            await asyncio.wait_for(self.settling.flush(), self._calls.options.close_timeout_s)
        except TimeoutError:
            logger.warning("acks of %s could not be sent; their messages come again", self.subscription.topic)
        if self._stream is not None:
            self._stream.close()
        self.settling.close()


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

    async def close(self) -> None:
        """Send the acks that are owed, then leave. What was received and not acked stays leased."""
        await self.source.close()
        self._on_close(self.source)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

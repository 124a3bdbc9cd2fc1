"""A stream of deliveries that reconnects by itself.

Leases outlive connections and servers, so the consumer keeps deliveries that it received before a connection
was lost. It skips a delivery whose lease ended while it waited here; the server redelivers that message. When
it closes, it gives back the deliveries that it has not handed out, as not started: they cost no attempt.
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
from driftq.errors import DriftQError
from driftq.forking import in_forked_child
from driftq.model import DeliveryLine
from driftq.model.wire.messages import AckPart
from driftq.transport.errors import is_transient

_decode_lines = msgspec.json.Decoder(DeliveryLine).decode_lines

logger = logging.getLogger("driftq.client")


class LineSource:
    """The lines of one subscription, over as many connections as needed. One reader at a time."""

    def __init__(self, calls: Calls, subscription: Subscription) -> None:
        self.subscription = subscription
        self._calls = calls
        self._octets = calls.writer.request("GET", "/v1/consume", query=subscription.query())
        self.settling = Settling(calls, subscription.topic, subscription.group, subscription.owner)
        self._stream: LineReader | None = None
        self._rest = b""
        self._backoff = RetryBackoff()
        self._patience_ends = time.monotonic() + calls.options.timeout_s
        """The end of the wait for the first connection; later ones are waited for without limit."""
        self._lease_s = subscription.lease_ms / 1000
        self._lines: Iterator[DeliveryLine] = iter(())
        self._leased_until = 0.0
        self._monotonic = calls.connector.monotonic
        self._closing = asyncio.Event()
        self._left = False
        self._closed = False
        self._expired: AckPart | None = None
        self._liveness_nack: asyncio.Task[None] | None = None
        in_forked_child(self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """The parent handles these deliveries; a child that handled them too would do so twice."""
        self._calls = self._calls.left_behind("this consumer")
        self._lines = iter(())
        self._stream = None
        self._closing = asyncio.Event()
        self._expired = None
        self._liveness_nack = None

    def ready(self) -> DeliveryLine | None:
        """The next delivery that has arrived and is still leased; None: await `fill` first."""
        line = next(self._lines, None)
        if line is not None and self._monotonic() >= self._leased_until:
            skipped = 1 + sum(1 for _ in self._lines)
            self._expired = _ack_part(line)
            logger.warning("skipping %d deliveries whose lease ended before they were handled", skipped)
            return None
        return line

    async def fill(self) -> bool:
        """Wait for deliveries; False when the consumer is closed. Raises errors that are not transient."""
        if self._expired is not None:
            self._signal_liveness(self._expired)
        while not self._closing.is_set():
            try:
                piece = await self._next_piece()
            except ConnectionLost as lost:
                await self._cut(str(lost))
            except DriftQError as failure:
                if not is_transient(failure) or time.monotonic() > self._patience_ends:
                    raise
                await self._cut(failure.message)
            else:
                complete, newline, self._rest = (self._rest + piece).rpartition(b"\n")
                if newline:
                    self._lines = iter(_decode_lines(complete))
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
            logger.warning("lost the stream of %s (%s); reconnecting", self.subscription.topic, cause)
        try:
            await asyncio.wait_for(self._closing.wait(), self._backoff.next_s())
        except TimeoutError:
            pass

    def _signal_liveness(self, delivery: AckPart) -> None:
        """A late nack shows the server that this consumer is alive; without one it delivers no more."""
        self._expired = None
        self._liveness_nack = asyncio.ensure_future(self.settling.give_back([delivery]))

    async def leave(self) -> None:
        """Close the stream and give back the deliveries that were not handed out. Acks can still be sent.

        Leases outlive a stream, so the stream ends first: otherwise the server could redeliver here what is
        given back. With `release_on_close` the end of the stream releases and counts deliveries, so they
        are given back before it.
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
            logger.warning(
                "deliveries of %s could not be given back in time; they stay leased", self.subscription.topic
            )
        if self._stream is not None:
            self._stream.close()

    def _unhandled(self) -> list[AckPart]:
        """The deliveries that have arrived and were not handed out."""
        lines = list(self._lines)
        if self._stream is not None:
            complete, newline, self._rest = (self._rest + self._stream.take()).rpartition(b"\n")
            if newline:
                lines += _decode_lines(complete)
        return list(map(_ack_part, lines))

    async def close(self) -> None:
        """Send the outstanding acks, give back what was not handed out, then close the stream."""
        self._closing.set()
        if self._closed:
            return
        self._closed = True
        try:
            await asyncio.wait_for(self.settling.flush(), self._calls.options.close_timeout_s)
        except TimeoutError:
            logger.warning(
                "acks of %s could not be sent in time; the server will redeliver the messages",
                self.subscription.topic,
            )
        await self.leave()
        if self._liveness_nack is not None:
            self._liveness_nack.cancel()
        self.settling.close()


def _ack_part(line: DeliveryLine) -> AckPart:
    return AckPart(line.partition, line.offset, line.attempts)


class AsyncConsumer:
    """Deliveries as they arrive, for `async for`; `close` ends it. For one task at a time."""

    def __init__(self, source: LineSource, on_close: Callable[[LineSource], None]) -> None:
        self.source = source
        self._on_close = on_close

    @property
    def owner(self) -> str:
        return self.source.subscription.owner

    def __aiter__(self) -> Self:
        return self

    def _arrived(self) -> AsyncDelivery | None:
        """The next delivery that has arrived; None when `source.fill` has to be awaited first."""
        source = self.source
        line = source.ready()
        return None if line is None else AsyncDelivery(line, source.settling, source.subscription.lease_ms)

    async def __anext__(self) -> AsyncDelivery:
        while (delivery := self._arrived()) is None:
            if not await self.source.fill():
                raise StopAsyncIteration
        return delivery

    async def take(self, count: int, *, within_s: float) -> list[AsyncDelivery]:
        """Up to `count` deliveries; fewer when no more arrive within `within_s`."""
        taken: list[AsyncDelivery] = []
        try:
            async with asyncio.timeout(within_s):
                while len(taken) < count:
                    taken.append(await anext(self))
        except (TimeoutError, StopAsyncIteration):
            pass
        return taken

    async def leave(self) -> None:
        """Take no more deliveries and give back those not handed out; the others can still be settled."""
        await self.source.leave()

    async def close(self) -> None:
        """Send the outstanding acks and leave. Deliveries that were handed out and not acked stay leased."""
        await self.source.close()
        self._on_close(self.source)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

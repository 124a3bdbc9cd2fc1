"""A message in a consumer's hands, and what can be done with it."""

from __future__ import annotations

from typing import Any, TypeVar

from driftq.client.consuming.subscription import Settling
from driftq.client.loop_thread import LoopThread
from driftq.model import DeliveryLine, Envelope, Routing
from driftq.model.value import bytes_of, json_of
from driftq.model.wire.settle import AckPart

_T = TypeVar("_T")


class Received:
    """What a delivery says."""

    __slots__ = ("_line", "_settling", "lease_ms")

    def __init__(self, line: DeliveryLine, settling: Settling, lease_ms: int) -> None:
        self._line = line
        self._settling = settling
        self.lease_ms = lease_ms

    def __repr__(self) -> str:
        line = self._line
        return (
            f"<{type(self).__name__} {self.topic} partition {line.partition} offset {line.offset} "
            f"attempt {line.attempts} key {line.key!r}>"
        )

    @property
    def topic(self) -> str:
        return self._settling.topic

    @property
    def group(self) -> str:
        return self._settling.group

    @property
    def owner(self) -> str:
        return self._settling.owner

    @property
    def partition(self) -> int:
        return self._line.partition

    @property
    def offset(self) -> int:
        return self._line.offset

    @property
    def attempt(self) -> int:
        """Which delivery of this message it is, from 1; never given twice."""
        return self._line.attempts

    @property
    def tries(self) -> int:
        """How many deliveries the retry policy counts, this one included: from 1 again after a reset."""
        return self._line.tries or self._line.attempts

    @property
    def key(self) -> str:
        return self._line.key

    @property
    def value(self) -> str:
        """The text as it is stored."""
        return self._line.value

    @property
    def last_error(self) -> str:
        return self._line.last_error

    @property
    def routing(self) -> Routing | None:
        return self._line.routing

    @property
    def envelope(self) -> Envelope:
        """Empty when the message has none."""
        return self._line.envelope or _NO_ENVELOPE

    @property
    def requested_topic(self) -> str:
        """The topic that the producer named; another one when it was routed."""
        return self._line.requested_topic or self.topic

    def json(self) -> Any:
        """The value, read as JSON; raises InvalidArgument."""
        return json_of(self._line.value)

    def decode(self, kind: type[_T]) -> _T:
        """The value, read as JSON of this type (a dataclass, a TypedDict, …); raises InvalidArgument."""
        found: _T = json_of(self._line.value, kind)
        return found

    def bytes(self) -> bytes:
        """The value as the bytes it was produced from; for a text, its UTF-8."""
        return bytes_of(self._line.value)

    def _place(self) -> AckPart:
        line = self._line
        return AckPart(line.partition, line.offset, line.attempts)


class AsyncDelivery(Received):
    """A delivery of an `AsyncClient`."""

    __slots__ = ()

    async def ack(self) -> None:
        """Done: the group never gets it again. Raises when it is no longer ours."""
        await self._settling.ack(self._place())

    async def ack_later(self) -> None:
        """Done, with the next batch of acks. One that is refused is logged, and the message comes again."""
        settling = self._settling
        if settling.acks.full:
            await settling.acks.wait_for_room()
        settling.owe(self._place())

    async def nack(self, reason: str = "", *, retryable: bool = True, started: bool = True) -> None:
        """Failed: it comes again after its backoff, or goes to the dead letters when that is pointless.

        With `started=False` nobody began to handle it: it is due at once and costs no try.
        """
        await self._settling.nack(self._place(), reason=reason, retryable=retryable, started=started)

    async def extend(self, lease_ms: int | None = None) -> None:
        """Hold it for so long from now."""
        await self._settling.extend(self._place(), lease_ms=lease_ms or self.lease_ms)

    def for_thread(self, thread: LoopThread) -> Delivery:
        """The same for a caller without a loop."""
        return Delivery(self._line, self._settling, self.lease_ms, thread)


class Delivery(Received):
    """A delivery of a `Client`."""

    __slots__ = ("_thread",)

    def __init__(self, line: DeliveryLine, settling: Settling, lease_ms: int, thread: LoopThread) -> None:
        super().__init__(line, settling, lease_ms)
        self._thread = thread

    def ack(self) -> None:
        """Done: the group never gets it again. Raises when it is no longer ours."""
        self._thread.run(self._settling.ack(self._place()))

    def ack_later(self) -> None:
        """Done, with the next batch of acks. One that is refused is logged, and the message comes again."""
        self._thread.run(self._settling.ack_later(self._place()))

    def nack(self, reason: str = "", *, retryable: bool = True, started: bool = True) -> None:
        """Failed: it comes again after its backoff, or goes to the dead letters when that is pointless.

        With `started=False` nobody began to handle it: it is due at once and costs no try.
        """
        self._thread.run(
            self._settling.nack(self._place(), reason=reason, retryable=retryable, started=started)
        )

    def extend(self, lease_ms: int | None = None) -> None:
        """Hold it for so long from now."""
        self._thread.run(self._settling.extend(self._place(), lease_ms=lease_ms or self.lease_ms))


_NO_ENVELOPE = Envelope()

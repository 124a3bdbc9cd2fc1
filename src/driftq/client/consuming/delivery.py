"""A delivered message, and how it is settled."""

from __future__ import annotations

from typing import Any, TypeVar

from driftq.client.consuming.subscription import Settling
from driftq.model import DeliveryLine, Envelope, Routing
from driftq.model.value import bytes_of, json_of
from driftq.model.wire.messages import AckPart

_T = TypeVar("_T")


class Received:
    """The fields of a delivery."""

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
        """The number of this delivery of the message, from 1."""
        return self._line.attempts

    @property
    def tries(self) -> int:
        """How many deliveries the retry policy counts, this one included; a reset starts over at 1."""
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
        """The envelope; empty when the message has none."""
        return self._line.envelope or _NO_ENVELOPE

    @property
    def headers(self) -> dict[str, str]:
        """The headers that the producer set; empty when there are none."""
        return self._line.headers or {}

    @property
    def requested_topic(self) -> str:
        """The topic that the producer named; it differs from `topic` when a router decided."""
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

    def _ack_part(self) -> AckPart:
        line = self._line
        return AckPart(line.partition, line.offset, line.attempts)


class AsyncDelivery(Received):
    """A delivery of an `AsyncClient`."""

    __slots__ = ()

    async def ack(self) -> None:
        """Settle the message: the group never gets it again. Raises when the lease was lost."""
        await self._settling.ack(self._ack_part())

    async def ack_later(self) -> None:
        """Ack with the next batch, without waiting. A refused ack is logged, and the message redelivered."""
        await self._settling.ack_later(self._ack_part())

    async def nack(self, reason: str = "", *, retryable: bool = True, started: bool = True) -> None:
        """Report a failure: the message is retried after a backoff, or becomes a dead letter.

        With `retryable=False` it becomes a dead letter at once. With `started=False` the message was not
        handled: it is due at once and costs no attempt.
        """
        await self._settling.nack(self._ack_part(), reason=reason, retryable=retryable, started=started)

    async def extend(self, lease_ms: int | None = None) -> None:
        """Extend the lease to `lease_ms` from now."""
        await self._settling.extend(self._ack_part(), lease_ms=lease_ms or self.lease_ms)


_NO_ENVELOPE = Envelope()

"""The parameters of one consumer, and how it settles its deliveries."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Literal

from driftq.client.producing.batcher import Batcher
from driftq.client.wire.calls import Calls
from driftq.client.wire.encoding import read_acks
from driftq.errors import DriftQError, FailedPrecondition, NoCurrentDelivery, StaleAttempt
from driftq.forking import in_forked_child
from driftq.model.wire.messages import AckPart
from driftq.transport.paths import Query

LEASE_MS = 30_000
_ACK_BYTES = 48
_GIVING_BACK_MAX = 8

_numbers = count(1)
logger = logging.getLogger("driftq.client")


def new_owner() -> str:
    """An owner name that is unique to this consumer."""
    return f"{socket.gethostname()}-{os.getpid()}-{next(_numbers)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """The parameters of one consumer."""

    topic: str
    group: str
    owner: str
    lease_ms: int = LEASE_MS
    prefetch: int | None = None
    start: Literal["earliest", "latest"] | None = None
    release_on_close: bool = False

    def query(self) -> Query:
        return {
            "topic": self.topic,
            "group": self.group,
            "owner": self.owner,
            "lease_ms": self.lease_ms,
            "prefetch": self.prefetch,
            "start": self.start,
            "release_on_close": True if self.release_on_close else None,
        }


class Settling:
    """Acks, nacks and lease extensions of one owner in one group."""

    def __init__(self, calls: Calls, topic: str, group: str, owner: str) -> None:
        self.topic = topic
        self.group = group
        self.owner = owner
        self.refused = 0
        """How many acks of `ack_later` the server refused."""
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self.acks: Batcher[AckPart, None] = Batcher(
            calls.connector,
            calls.options,
            write=partial(calls.writer.ack_batch, topic, group, owner),
            read=read_acks,
        )
        self._waiter = (
            self._ack_finished
        )  # One for all: a bound method for each ack would keep the collector busy.
        in_forked_child(self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """The leases and the owner's name belong to the parent."""
        self._calls = self._calls.left_behind("this delivery")

    async def ack(self, ack: AckPart) -> None:
        """Ack a delivery: returns when the ack is durable, raises when the server refuses it."""
        (refused,) = await self.ack_many([ack])
        if refused is not None:
            raise refused

    async def ack_many(self, acks: Iterable[AckPart]) -> list[Exception | None]:
        """Ack many deliveries; None or an error for each."""
        pending = list(acks)
        done: asyncio.Future[None] = self._loop.create_future()
        answers: list[Exception | None] = [None] * len(pending)
        left = len(pending)

        def record(slot: int, _: AckPart, answer: Exception | None) -> None:
            nonlocal left
            answers[slot] = answer
            left -= 1
            if not left and not done.done():
                done.set_result(None)

        for slot, ack in enumerate(pending):
            if self.acks.full:
                await self.acks.wait_for_room()
            self.acks.put(ack, _ACK_BYTES, partial(record, slot))
        if pending:
            await done
        return answers

    async def ack_later(self, ack: AckPart) -> None:
        """Ack a delivery with the next batch; waits for room, not for the response."""
        if self.acks.full:
            await self.acks.wait_for_room()
        self.owe(ack)

    def owe(self, ack: AckPart) -> None:
        """Send this ack with the next batch."""
        self.acks.put(ack, _ACK_BYTES, self._waiter)

    def _ack_finished(self, ack: AckPart, answer: Exception | None) -> None:
        if answer is not None:
            self.refused += 1
            logger.warning(
                "%s partition %d offset %d was not acked and will be redelivered: %s",
                self.topic,
                ack.partition,
                ack.offset,
                answer,
            )

    async def nack(
        self, delivery: AckPart, *, reason: str = "", retryable: bool = True, started: bool = True
    ) -> None:
        """Nack a delivery; raises when the server refuses it."""
        fields = {**self._delivery_fields(delivery), "reason": reason}
        if not retryable:
            fields["retryable"] = False
        if not started:
            fields["started"] = False
        try:
            await self._calls.call("POST", "/v1/nack", body=fields, repeatable=False)
        except DriftQError as failure:
            if failure.status != 503:
                raise
            await self._repeat_nack(fields)

    async def _repeat_nack(self, fields: dict[str, str | int | bool]) -> None:
        """Repeat a nack whose response was lost; the server may have processed the first one."""
        try:
            await self._calls.call("POST", "/v1/nack", body=fields, repeatable=True)
        except (NoCurrentDelivery, StaleAttempt):
            pass

    async def give_back(self, deliveries: Iterable[AckPart]) -> None:
        """Nack deliveries that were not started; stops at the first failure of the server."""
        room = asyncio.Semaphore(_GIVING_BACK_MAX)
        gone = False

        async def give_back_delivery(delivery: AckPart) -> None:
            nonlocal gone
            async with room:
                if gone:
                    return
                try:
                    fields = {**self._delivery_fields(delivery), "started": False}
                    await self._calls.call("POST", "/v1/nack", body=fields, repeatable=False)
                except FailedPrecondition:
                    pass  # Its lease has ended: the server delivers it to another owner.
                except DriftQError as failure:
                    gone = True
                    logger.warning("unhandled deliveries of %s stay leased: %s", self.topic, failure)

        await asyncio.gather(*map(give_back_delivery, deliveries))

    async def extend(self, delivery: AckPart, *, lease_ms: int) -> None:
        fields = {**self._delivery_fields(delivery), "lease_ms": lease_ms}
        await self._calls.call("POST", "/v1/lease/extend", body=fields, repeatable=True)

    def _delivery_fields(self, delivery: AckPart) -> dict[str, str | int | bool]:
        fields: dict[str, str | int | bool] = {
            "topic": self.topic,
            "group": self.group,
            "owner": self.owner,
            "partition": delivery.partition,
            "offset": delivery.offset,
        }
        if delivery.attempt is not None:
            fields["attempt"] = delivery.attempt
        return fields

    async def flush(self) -> None:
        await self.acks.flush()

    def close(self) -> None:
        self.acks.close()

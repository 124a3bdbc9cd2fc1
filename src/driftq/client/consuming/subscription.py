"""Who reads what: the facts of one consumer, and the acks that it owes."""

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
from driftq.client.wire.encoding import Query, read_acks
from driftq.errors import DriftQError, FailedPrecondition, NoCurrentDelivery, StaleAttempt
from driftq.forking import in_forked_child
from driftq.model.wire.settle import AckPart

LEASE_MS = 30_000
_ACK_BYTES = 48
_GIVING_BACK_MAX = 8

_numbers = count(1)
logger = logging.getLogger("driftq.client")


def new_owner() -> str:
    """A name that no other consumer has."""
    return f"{socket.gethostname()}-{os.getpid()}-{next(_numbers)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """What a consumer asks for."""

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
        """Acks that nobody waited for and that the server refused."""
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self.acks: Batcher[AckPart, None] = Batcher(
            calls.connector,
            calls.options,
            write=partial(calls.writer.ack_batch, topic, group, owner),
            read=read_acks,
        )
        self._waiter = self._told  # One for all: a bound method for each ack would keep the collector busy.
        in_forked_child(self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """The leases are the parent's, and so are its owner's names."""
        self._calls = self._calls.left_behind("this delivery")

    async def ack(self, ack: AckPart) -> None:
        """Done: returns when that is durable, raises when it was refused."""
        (refused,) = await self.ack_many([ack])
        if refused is not None:
            raise refused

    async def ack_many(self, acks: Iterable[AckPart]) -> list[Exception | None]:
        """None or an error for each."""
        asked = list(acks)
        done: asyncio.Future[None] = self._loop.create_future()
        answers: list[Exception | None] = [None] * len(asked)
        left = len(asked)

        def told(slot: int, _: AckPart, answer: Exception | None) -> None:
            nonlocal left
            answers[slot] = answer
            left -= 1
            if not left and not done.done():
                done.set_result(None)

        for slot, ack in enumerate(asked):
            if self.acks.full:
                await self.acks.wait_for_room()
            self.acks.put(ack, _ACK_BYTES, partial(told, slot))
        if asked:
            await done
        return answers

    async def ack_later(self, ack: AckPart) -> None:
        """Done, without waiting for the answer; only for room."""
        if self.acks.full:
            await self.acks.wait_for_room()
        self.owe(ack)

    def owe(self, ack: AckPart) -> None:
        """Send this with the next batch."""
        self.acks.put(ack, _ACK_BYTES, self._waiter)

    def _told(self, ack: AckPart, answer: Exception | None) -> None:
        if answer is not None:
            self.refused += 1
            logger.warning(
                "%s partition %d offset %d was not acked and comes again: %s",
                self.topic,
                ack.partition,
                ack.offset,
                answer,
            )

    async def nack(
        self, place: AckPart, *, reason: str = "", retryable: bool = True, started: bool = True
    ) -> None:
        """Failed, or not even started; raises what the server refused."""
        fields = {**self._place(place), "reason": reason}
        if not retryable:
            fields["retryable"] = False
        if not started:
            fields["started"] = False
        try:
            await self._calls.call("POST", "/v1/nack", body=fields, repeatable=False)
        except DriftQError as failure:
            if failure.status != 503:
                raise
            await self._nack_again(fields)

    async def _nack_again(self, fields: dict[str, str | int | bool]) -> None:
        """The first try may have been done: then there is nothing left to give back."""
        try:
            await self._calls.call("POST", "/v1/nack", body=fields, repeatable=True)
        except (NoCurrentDelivery, StaleAttempt):
            pass

    async def give_back(self, places: Iterable[AckPart]) -> None:
        """Nobody began to handle these: one try each, for as long as the server answers."""
        room = asyncio.Semaphore(_GIVING_BACK_MAX)
        gone = False

        async def one(place: AckPart) -> None:
            nonlocal gone
            async with room:
                if gone:
                    return
                try:
                    fields = {**self._place(place), "started": False}
                    await self._calls.call("POST", "/v1/nack", body=fields, repeatable=False)
                except FailedPrecondition:
                    pass  # Its lease is over, and somebody else has it or will.
                except DriftQError as failure:
                    gone = True
                    logger.warning("what %s sent and nobody handled stays leased: %s", self.topic, failure)

        await asyncio.gather(*map(one, places))

    async def extend(self, place: AckPart, *, lease_ms: int) -> None:
        fields = {**self._place(place), "lease_ms": lease_ms}
        await self._calls.call("POST", "/v1/lease/extend", body=fields, repeatable=True)

    def _place(self, place: AckPart) -> dict[str, str | int | bool]:
        fields: dict[str, str | int | bool] = {
            "topic": self.topic,
            "group": self.group,
            "owner": self.owner,
            "partition": place.partition,
            "offset": place.offset,
        }
        if place.attempt is not None:
            fields["attempt"] = place.attempt
        return fields

    async def flush(self) -> None:
        await self.acks.flush()

    def close(self) -> None:
        self.acks.close()

"""Producing: messages are sent in batches until the server confirms them.

A message whose response was lost may be stored. So the client repeats a message only under an idempotency
key, and makes a key up where the caller gave none. With `retries=0` it does neither.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from driftq.client.producing.batcher import Batcher
from driftq.client.producing.entry import Waiter
from driftq.client.producing.outgoing import (
    EnvelopeFields,
    KeyAlone,
    Outgoing,
    keys,
    outgoing,
    with_instant,
    with_trace,
)
from driftq.client.wire.calls import Calls
from driftq.client.wire.encoding import read_receipts
from driftq.errors import BatchRefused, DriftQError
from driftq.model.wire.produce import Receipt
from driftq.telemetry.tracing import is_tracing

KeyOf = str | Callable[[Any], str]
"""A key for all values, or a function that makes one from each."""

_OVERHEAD_BYTES = 160


class Producer:
    """Produces the messages of one client."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self._create_future = self._loop.create_future
        self.batcher: Batcher[Outgoing, Receipt] = Batcher(
            calls.connector, calls.options, write=calls.writer.produce_batch, read=read_receipts
        )

    def produce(
        self,
        topic: str,
        value: Any,
        key: str,
        idempotency_key: str | None,
        retries: int | None,
        envelope: EnvelopeFields,
        headers: Mapping[str, str] | None = None,
    ) -> asyncio.Future[Receipt]:
        """Gets its result when the message is durable."""
        receipt: asyncio.Future[Receipt] = self._create_future()
        if is_tracing():
            envelope = with_trace(envelope)
        if "delay" in envelope:
            envelope = with_instant(envelope, self._calls.connector.now)
        if (
            type(value) is str
            and idempotency_key is None
            and retries is None
            and not envelope
            and headers is None
            and value.isascii()
            and key.isascii()
            and topic.isascii()
        ):  # The common case without the checks of `outgoing`, which would give the same message.
            message = Outgoing(topic, value, key, KeyAlone(keys.next()))
            self.batcher.put(message, len(value) + len(key) + _OVERHEAD_BYTES, receipt)
            return receipt
        if idempotency_key is None and retries != 0:
            idempotency_key = keys.next()
        self._put(outgoing(topic, value, key, idempotency_key, envelope, headers), receipt, retries)
        return receipt

    def _put(self, message: Outgoing, waiter: Waiter[Outgoing, Receipt], retries: int | None) -> None:
        if message.envelope is None or not message.envelope.idempotency_key:
            retries = 0
        size = len(message.value) + len(message.key) + _OVERHEAD_BYTES
        if message.headers:
            size += sum(len(name) + len(value) for name, value in message.headers.items())
        self.batcher.put(message, size, waiter, retries)

    async def produce_many(
        self,
        topic: str,
        values: Iterable[Any],
        *,
        key: KeyOf,
        idempotency_key: KeyOf | None,
        retries: int | None,
        atomic: bool,
        envelope: EnvelopeFields,
        headers: Mapping[str, str] | None = None,
    ) -> list[Receipt]:
        """Returns when all are durable, in the order of the values; raises BatchRefused when some are not."""
        envelope = with_instant(with_trace(envelope), self._calls.connector.now)
        messages = (
            outgoing(
                topic,
                value,
                key if isinstance(key, str) else key(value),
                _key_for(value, number, idempotency_key, retries),
                envelope,
                headers,
            )
            for number, value in enumerate(values, start=1)
        )
        if atomic:
            return await self._produce_together(list(messages), retries)
        collected = _Collected(self._loop.create_future())
        for index, message in enumerate(messages):
            if self.batcher.full:
                await self.batcher.wait_for_room()
            collected.expect()
            self._put(message, partial(collected.add, index), retries)
        return await collected.all()

    async def _produce_together(self, messages: list[Outgoing], retries: int | None) -> list[Receipt]:
        """All or nothing, in one request."""
        if not messages:
            return []
        octets = self._calls.writer.produce_batch(messages, atomic=True)
        body = await self._calls.send(octets, repeatable=retries != 0)
        return [receipt for receipt in read_receipts(200, body) if isinstance(receipt, Receipt)]

    async def flush(self) -> None:
        await self.batcher.flush()

    def close(self) -> None:
        self.batcher.close()


class _Collected:
    """Collects the results of many messages."""

    def __init__(self, done: asyncio.Future[None]) -> None:
        self._done = done
        self._receipts: dict[int, Receipt] = {}
        self._errors: dict[int, DriftQError] = {}
        self._broken: Exception | None = None
        self._expected = 0
        self._resolved = 0
        self._last = False

    def expect(self) -> None:
        self._expected += 1

    def add(self, index: int, _: Outgoing, result: Receipt | Exception) -> None:
        self._resolved += 1
        if isinstance(result, Receipt):
            self._receipts[index] = result
        elif isinstance(result, DriftQError):
            self._errors[index] = result
        else:
            self._broken = result
        self._end()

    def _end(self) -> None:
        if self._last and self._resolved == self._expected and not self._done.done():
            self._done.set_result(None)

    async def all(self) -> list[Receipt]:
        self._last = True
        self._end()
        await self._done
        if self._broken is not None:
            raise self._broken
        if self._errors:
            raise BatchRefused(self._errors, receipts=dict(self._receipts))
        return [self._receipts[index] for index in range(self._expected)]


def _key_for(value: Any, number: int, given: KeyOf | None, retries: int | None) -> str | None:
    if given is None:
        return keys.next() if retries != 0 else None
    return f"{given}-{number}" if isinstance(given, str) else given(value)

"""Queues: list them, limit them, pause and resume them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import msgspec

from driftq.client.wire.calls import Calls
from driftq.model.wire.queues import KeyLimits, LimitsBody, QueueReply, QueuesReply, QueueView, RateLimit
from driftq.transport.paths import Query


class AsyncQueueCalls:
    """The calls of `/v1/queues`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def list(self, *, limit: int | None = None, after: str | None = None) -> list[QueueView]:
        """Queues by name, those after a name, with the number of their jobs in each state."""
        query: Query = {"limit": limit, "after": after}
        found: QueuesReply = await self._calls.call(
            "GET", "/v1/queues", query=query, repeatable=True, kind=QueuesReply
        )
        return found.queues

    async def limit(
        self,
        queue: str,
        *,
        concurrency: int | None = None,
        rate: tuple[int, float] | None = None,
        key_concurrency: int | None = None,
        key_rate: tuple[int, float] | None = None,
    ) -> QueueReply:
        """Set the limits of a queue and of each of its limit keys; what is not given is not limited.

        A rate is a number of claims and a number of seconds: no window of that length has more claims.
        """
        per_key = KeyLimits(key_concurrency, _rate(key_rate))
        body = LimitsBody(concurrency, _rate(rate), per_key if per_key != KeyLimits() else None)
        return await self._call("PUT", queue, "limits", body=msgspec.to_builtins(body))

    async def pause(self, queue: str) -> QueueReply:
        """Pause a queue: it accepts jobs, and no worker gets one."""
        return await self._call("POST", queue, "pause")

    async def resume(self, queue: str) -> QueueReply:
        """Resume a paused queue."""
        return await self._call("POST", queue, "resume")

    async def _call(self, method: str, queue: str, verb: str, *, body: Any = None) -> QueueReply:
        path = f"/v1/queues/{quote(queue, safe='')}/{verb}"
        reply: QueueReply = await self._calls.call(method, path, body=body, repeatable=True, kind=QueueReply)
        return reply


def _rate(given: tuple[int, float] | None) -> RateLimit | None:
    return None if given is None else RateLimit(given[0], round(given[1] * 1000))

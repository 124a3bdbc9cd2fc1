"""Telling the server what a worker declares, as soon as the server is there."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from driftq.client.backoff import RetryBackoff
from driftq.errors import Unavailable

logger = logging.getLogger("driftq.worker")


async def until_accepted(what: str, call: Callable[[], Awaitable[object]]) -> None:
    """Repeat the call while the server is away; raises what waiting cannot mend."""
    backoff = RetryBackoff()
    while True:
        try:
            await call()
        except Unavailable as failure:
            logger.warning("could not register the %s: %s", what, failure)
            await asyncio.sleep(backoff.next_s())
            continue
        return

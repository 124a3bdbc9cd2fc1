"""The end of a client: what waits to be sent is sent, as long as there is time for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from driftq.client.consuming.subscription import Settling
from driftq.client.producing.producer import Producer

logger = logging.getLogger("driftq.client")


async def send_and_close(owing: Sequence[Producer | Settling], *, timeout_s: float) -> None:
    """Flush all, and close them also when the time is over."""
    try:
        async with asyncio.timeout(timeout_s):
            for batcher in owing:
                await batcher.flush()
    except TimeoutError:
        logger.warning("the client closed before it could send everything that was waiting")
    for batcher in owing:
        batcher.close()

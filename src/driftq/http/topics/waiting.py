"""POST …/spans with `wait_ms`: the reply waits until there is a message in one of the spans."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from driftq.core.state import State
from driftq.http.reads import ask_state
from driftq.http.wire.exchange import Exchange
from driftq.model.wire.topics import SpansReply


async def wait_for_messages(
    exchange: Exchange, query: Callable[[State], SpansReply], *, wait_ms: int
) -> None:
    """Reply when a span has a message, or when the time is over."""
    engine = exchange.edge.engine
    loop = asyncio.get_running_loop()
    until = loop.time() + wait_ms / 1000
    waiting = True
    while True:
        found = await ask_state(exchange, query)
        if not waiting or any(span.messages for span in found.spans):
            exchange.on_lost = None
            exchange.reply_json(found)
            return
        waiting = await engine.stages.topic_waits.wait(
            engine.state, exchange.topic, next_offset=found.next_offset, within_s=until - loop.time()
        )

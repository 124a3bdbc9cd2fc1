"""Produce and ack thousands of messages concurrently from one event loop, against a running server.

The client sends calls that are made at the same time in a few batched requests. So a program with many
small messages needs no batching code of its own.

Start a server first (`driftq serve`), or set DRIFTQ_URL.
"""

import asyncio
import os

import driftq

MESSAGES = 5_000


async def main() -> None:
    async with driftq.AsyncClient(os.environ.get("DRIFTQ_URL", "http://127.0.0.1:8080")) as client:
        await client.create_topic("readings")
        calls = [client.produce("readings", {"celsius": number % 40}) for number in range(MESSAGES)]
        receipts = await asyncio.gather(*calls)
        print(f"{len(receipts)} messages produced")

        acked = 0
        async with client.consume("readings", group="archive", prefetch=1_000) as deliveries:
            async for delivery in deliveries:
                await delivery.ack_later()
                acked += 1
                if acked == MESSAGES:
                    break
        lag = sum(group.lag for group in (await client.topic("readings")).groups)
        print(f"{acked} messages acked, {lag} left")


asyncio.run(main())

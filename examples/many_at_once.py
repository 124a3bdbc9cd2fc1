"""Thousands of produces and acks at the same time travel in a few requests."""

import asyncio
import os

import driftq

MESSAGES = 5_000


async def main() -> None:
    async with driftq.AsyncClient(os.environ.get("DRIFTQ_URL", "http://127.0.0.1:8080")) as client:
        await client.create_topic("readings")
        await asyncio.gather(*[client.produce("readings", {"celsius": n % 40}) for n in range(MESSAGES)])
        seen = 0
        async with client.consume("readings", group="archive", prefetch=1_000) as deliveries:
            async for delivery in deliveries:
                seen += 1
                await delivery.ack_later()
                if seen == MESSAGES:
                    break
        lag = sum(group.lag for group in (await client.topic("readings")).groups)
        print(f"{seen} consumed, {lag} left")


asyncio.run(main())

"""Enqueue many jobs in one durable write from an asyncio program, and gather their results.

The worker runs on the loop of the program, with the program's own client.
"""

import asyncio
import tempfile

import driftq


async def main(folder: str) -> None:
    async with await driftq.open_async(folder) as client:
        jobs = driftq.Jobs(client)

        @jobs.task(queue="sums")
        async def square(number: int) -> int:
            return number * number

        async with jobs:
            handles = await square.enqueue_many_async([(number,) for number in range(100)])
            results = await asyncio.gather(*[handle.result_async(timeout=30) for handle in handles])
        print(f"{len(handles)} jobs, the sum of their results is {sum(results)}")


with tempfile.TemporaryDirectory() as folder:
    asyncio.run(main(folder))

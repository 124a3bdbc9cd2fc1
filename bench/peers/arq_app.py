"""arq on Valkey: a job stays in its queue until its run is over."""

import asyncio

from arq import create_pool
from arq.connections import RedisSettings

from bench.peers.counting import JOBS, URL, count


async def nothing(context: dict, number: int) -> None:
    count()


class WorkerSettings:
    functions = (nothing,)
    redis_settings = RedisSettings.from_dsn(URL)
    keep_result = 0
    max_jobs = 100


async def _enqueue() -> None:
    pool = await create_pool(WorkerSettings.redis_settings)
    for number in range(JOBS):
        await pool.enqueue_job("nothing", number)


def enqueue() -> None:
    asyncio.run(_enqueue())

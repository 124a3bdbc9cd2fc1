"""Jobs end to end: enqueued one by one by many callers, then worked off by one process, all of it durable."""

import asyncio
import threading
import time
from typing import NamedTuple

import uvloop

import driftq
from bench.harness.figure import Figure, at_least
from bench.job_keys import keyed
from bench.job_latency import latencies
from bench.machine import server

COUNT = 50_000
CALLERS = 256


class Measured(NamedTuple):
    """Jobs a second."""

    enqueued: float
    worked: float


def no_op() -> list[Figure]:
    """One worker process and jobs that do nothing; a job counts when its end is on disk."""
    with server() as running:
        enqueued, worked = measure(f"http://127.0.0.1:{running.port}", COUNT)
    return [
        Figure(f"jobs: durable enqueue, {CALLERS} callers", enqueued, "jobs/s"),
        Figure(
            "jobs: claim, run a no-op, complete; one worker process, fsync always",
            worked,
            "jobs/s",
            at_least(20000),
        ),
        *keyed(),
        *latencies(),
    ]


def measure(url: str, count: int) -> Measured:
    began = time.perf_counter()
    uvloop.run(_enqueue(url, count))
    enqueued = count / (time.perf_counter() - began)
    return Measured(enqueued, _work(url, count))


async def _enqueue(url: str, count: int) -> None:
    async with driftq.AsyncClient(url) as client:
        left = iter(range(count))

        async def caller() -> None:
            for number in left:
                await client.jobs.enqueue("bench", "nothing", {"number": number})

        await asyncio.gather(*[caller() for _ in range(CALLERS)])


def _work(url: str, count: int) -> float:
    with driftq.Client(url) as client:
        jobs = driftq.Jobs(client, concurrency=2)
        seen = 0
        all_ran = threading.Event()
        lock = threading.Lock()

        @jobs.task(queue="bench")
        def nothing(number: int) -> None:
            nonlocal seen
            with lock:
                seen += 1
                if seen == count:
                    all_ran.set()

        began = time.perf_counter()
        with jobs:
            all_ran.wait()
        # Leaving the block has settled what had run.
        worked = time.perf_counter() - began
        left = client.jobs.list(queue="bench", state="in_flight", limit=1)
        assert seen == count, f"{seen} runs"
        assert not left, "a job is not settled"
        return count / worked

"""Jobs with a limit key each: what the server's limits per key cost beside jobs without any."""

import statistics
import threading
import time

import driftq
from bench.harness.figure import Figure, at_least
from bench.machine import server

JOBS = 100_000
ROUNDS = 3


def keyed() -> list[Figure]:
    """One worker process, in turn with jobs without keys and with 100,000 keys; the middle of the ratios."""
    ratios: list[float] = []
    rates: list[float] = []
    for _ in range(ROUNDS):
        plain = _worked(keys=False)
        rates.append(_worked(keys=True))
        ratios.append(rates[-1] / plain)
    ratio = statistics.median(ratios)
    name = f"jobs: the same with a limit key per job, {JOBS:,} keys with a limit"
    rate = statistics.median(rates)
    return [
        Figure(
            name, rate, "jobs/s", ratio_to="without keys", ratio=ratio, ratio_aim=at_least(0.7), rounds=ROUNDS
        )
    ]


def _worked(*, keys: bool) -> float:
    """Jobs a second, from the start of the worker until every completion is on disk."""
    with server() as running, driftq.Client(f"http://127.0.0.1:{running.port}") as client:
        if keys:
            client.queues.limit("keyed", key_concurrency=1)
        limit_keys = [f"customer-{number}" for number in range(JOBS)] if keys else None
        payloads = ({"number": number} for number in range(JOBS))
        client.jobs.enqueue_many("keyed", "nothing", payloads, limit_keys=limit_keys)
        jobs = driftq.Jobs(client, concurrency=2)
        seen = 0
        all_ran = threading.Event()
        lock = threading.Lock()

        @jobs.task(queue="keyed")
        def nothing(number: int) -> None:
            nonlocal seen
            with lock:
                seen += 1
                if seen == JOBS:
                    all_ran.set()

        began = time.perf_counter()
        with jobs:
            all_ran.wait()
        worked = time.perf_counter() - began
        assert client.queues.list()[0].in_flight == 0
        return JOBS / worked

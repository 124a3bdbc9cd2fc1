"""Jobs from the caller's side: how soon a job starts and its result is there, and batches."""

import time
from queue import SimpleQueue

import driftq
from bench.harness.figure import Figure, at_least, at_most
from bench.machine import server

ROUNDS = 500
BATCH = 50_000
WARM_UP = 50


def latencies() -> list[Figure]:
    """One idle worker and one caller, one job at a time; then one batch without a worker."""
    with server() as running:
        url = f"http://127.0.0.1:{running.port}"
        starts, results = _round_trips(url)
        many = _enqueue_many(url)
    return [
        _milliseconds("jobs: enqueue → start, idle worker, p50", starts, 0.50, 5.0),
        _milliseconds("jobs: enqueue → start, idle worker, p99", starts, 0.99, 20.0),
        _milliseconds("jobs: enqueue → result, idle worker, p50", results, 0.50, 8.0),
        Figure("jobs: enqueue_many, fsync always", many, "jobs/s", at_least(50000)),
    ]


def _round_trips(url: str) -> tuple[list[float], list[float]]:
    """Milliseconds from the call of enqueue to the start of the task, and to its result at the caller."""
    starts: list[float] = []
    results: list[float] = []
    started: SimpleQueue[float] = SimpleQueue()
    with driftq.Client(url) as calling, driftq.Client(url) as working:
        jobs = driftq.Jobs(working, concurrency=2)

        @jobs.task(queue="latency")
        def nothing(number: int) -> int:
            started.put(time.perf_counter())
            return number

        callers = driftq.Jobs(calling)
        task = callers.task(queue="latency", name="nothing")(nothing.call)
        with jobs:
            for number in range(WARM_UP + ROUNDS):
                began = time.perf_counter()
                assert task.enqueue(number).result(timeout=30) == number
                ended = time.perf_counter()
                if number >= WARM_UP:
                    starts.append((started.get() - began) * 1000)
                    results.append((ended - began) * 1000)
                else:
                    started.get()
    return starts, results


def _enqueue_many(url: str) -> float:
    with driftq.Client(url) as client:
        began = time.perf_counter()
        enqueued = client.jobs.enqueue_many("many", "nothing", ({"number": n} for n in range(BATCH)))
        took = time.perf_counter() - began
        assert len({one.job_id for one in enqueued}) == BATCH
        return BATCH / took


def _milliseconds(name: str, found: list[float], share: float, target: float) -> Figure:
    value = sorted(found)[int(share * (len(found) - 1))]
    return Figure(name, value, "ms", at_most(target))

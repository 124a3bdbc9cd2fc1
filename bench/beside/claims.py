"""Claims and marks of single events by 16 threads on one registry, beside one thread, on SQLite."""

import threading
import time
import uuid

from bench.harness.figure import Figure, at_least
from bench.harness.plan import plan
from bench.harness.rounds import Sample, Side, interleave
from bench.machine import folder, settled
from driftq.registry import Effect, EventKey, Handler
from driftq.registry.sql_registry import MIGRATIONS, SqlRegistry
from driftq.sql import open_database, upgrade

THREADS = 16
HANDLER = Handler("bench", Effect.IDEMPOTENT)
ONE, MANY = "one thread", f"{THREADS} threads"


def claims_by_threads() -> list[Figure]:
    with folder() as place:
        database = open_database(f"sqlite:///{place}/registry.db")
        try:
            upgrade(database, [MIGRATIONS])
            registry = SqlRegistry(database)
            with settled():
                found = interleave(
                    [
                        Side(MANY, lambda: _claimed(registry, THREADS)),
                        Side(ONE, lambda: _claimed(registry, 1)),
                    ]
                )
        finally:
            database.close()
    name = "claim + mark_done of single events"
    return [
        found.figure(f"{name}, {MANY}", MANY, "/s", ratio_to=ONE, ratio_aim=at_least(5)),
        found.figure(f"{name}, {ONE}", ONE, "/s"),
    ]


def _claimed(registry: SqlRegistry, threads: int) -> Sample:
    """Each thread claims and marks one event after the other."""
    began, spent = time.perf_counter(), time.process_time()
    until = began + plan().seconds
    counts = [0] * threads
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            while time.perf_counter() < until:
                key = str(uuid.uuid4())
                registry.mark_done(registry.claim(HANDLER, EventKey(key, "order", key, 1)))
                counts[number] += 1
        except BaseException as error:
            failed.append(error)
            raise

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
    took, count = time.perf_counter() - began, sum(counts)
    return Sample(count / took, (time.process_time() - spent) * 1e6 / count)

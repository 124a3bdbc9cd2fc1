"""`python -m bench.claim_threads [SECONDS]`: claims and marks on SQLite, by one thread and by 16."""

import sys
import threading
import time
import uuid
from pathlib import Path

from bench.machine import folder
from driftq.registry import Effect, EventKey, Handler
from driftq.registry.sql_registry import SqlRegistry
from driftq.sql import open_database

THREADS = 16
HANDLER = Handler("bench", Effect.IDEMPOTENT)


def per_second(registry: SqlRegistry, threads: int, seconds: float) -> float:
    done = [0] * threads
    end = time.perf_counter() + seconds

    def work(number: int) -> None:
        while time.perf_counter() < end:
            key = str(uuid.uuid4())
            registry.mark_done(registry.claim(HANDLER, EventKey(key, "order", key, 1)))
            done[number] += 1

    running = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return sum(done) / seconds


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 3.0
    with folder() as place:
        database = open_database(f"sqlite:///{Path(place)}/registry.db")
        registry = SqlRegistry(database)
        per_second(registry, 1, 0.5)
        for _ in range(2):
            alone = per_second(registry, 1, seconds)
            together = per_second(registry, THREADS, seconds)
            print(f"1 thread {alone:,.0f}/s   16 threads {together:,.0f}/s   {together / alone:.1f}x")
        database.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

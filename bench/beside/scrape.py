"""What `GET /v1/metrics` of a server with 10,000 topics costs those who produce meanwhile."""

import threading
import time

from bench.beside.setting import Caller, create_topic
from bench.harness.figure import Figure, below
from bench.harness.plan import plan
from bench.harness.rounds import Sample, Side, interleave, p99_ms
from bench.harness.wrk import Produces, load
from bench.machine import Server, server

CONNECTIONS = 16
PAUSE_S = 0.1
ADDED_MS_MAX = 5
QUIET, SCRAPED = "without a scrape", "scraped all the time"


def scrape() -> list[Figure]:
    topics = plan().pick(10_000, 500)
    with server() as running:
        create_topic(running, "produced")
        _create(running, topics)
        found = interleave(
            [Side(SCRAPED, lambda: _scraped(running)), Side(QUIET, lambda: _produced(running))]
        )
    name = f"produce p99, {CONNECTIONS} connections, {topics:,} topics"
    added = found.difference(SCRAPED, QUIET, p99_ms)
    shown = found.figure(f"{name}, {SCRAPED}", SCRAPED, "ms", ratio_to=QUIET, of=p99_ms)
    return [
        shown,
        found.figure(f"{name}, {QUIET}", QUIET, "ms", of=p99_ms),
        found.figure(f"{name}: added by /v1/metrics", SCRAPED, "ms", aim=below(ADDED_MS_MAX), value=added),
    ]


def _create(running: Server, count: int) -> None:
    caller = Caller(running)
    for number in range(count):
        caller.ask("POST", "/v1/topics", {"name": f"topic-{number}", "partitions": 4})
    caller.close()


def _produced(running: Server) -> Sample:
    return load(running, Produces("produced"), connections=CONNECTIONS, seconds=plan().seconds)


def _scraped(running: Server) -> Sample:
    """Reads the page, pauses, and reads it again until the load is over."""
    over = threading.Event()
    pages: list[float] = []

    def read() -> None:
        caller = Caller(running)
        while not over.is_set():
            began = time.perf_counter()
            caller.ask("GET", "/v1/metrics")
            pages.append(time.perf_counter() - began)
            over.wait(PAUSE_S)
        caller.close()

    with running.measured.running():
        reader = threading.Thread(target=read)
        reader.start()
        time.sleep(PAUSE_S)
        try:
            sample = load(running, Produces("produced"), connections=CONNECTIONS, seconds=plan().seconds)
            running.measured.thaw()
        finally:
            over.set()
            reader.join()
    if not pages:
        raise RuntimeError("the page was never read")
    return sample
